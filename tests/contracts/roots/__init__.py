"""Tests of roots and their consumers, on a real EVM."""
