"""The lab runs backtests and attack simulations; only the command line imports this package."""
