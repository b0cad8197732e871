"""The commands `backtest` and `attack`, which compare rules on histories and in simulations."""
