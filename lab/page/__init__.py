"""Renders the results of `backtest` and `attack` as a single HTML file."""
