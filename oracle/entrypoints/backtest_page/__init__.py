"""The page of a backtest: one file, readable without a network, every plot drawn by ourselves."""
