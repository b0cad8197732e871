"""The backtest's result as one HTML file."""
