"""Known ways to cheat, each played in the closed loop beside an honest baseline."""
