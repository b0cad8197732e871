"""`backtest` and its tables."""
