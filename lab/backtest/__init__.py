"""Other rules over a network's own history."""
