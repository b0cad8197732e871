"""Tests of the contracts on a real EVM."""
