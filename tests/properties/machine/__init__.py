"""The index under random faults, kill -9 and forks at the same time."""
