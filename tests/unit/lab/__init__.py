"""Tests of backtests and comparisons."""
