"""Tests of the endpoints of ours, and of every fault that they have."""
