"""Tests of telling subscribers."""
