"""The commands `backtest` and `attack`: compare rules on histories and in simulations."""
