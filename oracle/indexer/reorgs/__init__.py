"""Detects forks, rewinds the index after a reorg, and halts after a finality violation."""
