"""Other rules over a network's own history, and over networks that are played."""
