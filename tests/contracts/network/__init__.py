"""Tests of TaskNetwork on a real EVM."""
