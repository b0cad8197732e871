"""Backtests and attack simulations; only the command line imports this package."""
