"""Known attacks, each simulated in the closed loop beside an honest baseline."""
