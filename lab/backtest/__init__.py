"""Backtests: process a network's history under several systems, and compare the results."""
