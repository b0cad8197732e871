"""Backtests: a network's history folded under other systems, and the results compared."""
