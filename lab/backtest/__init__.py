"""Other rules applied to a network's own history."""
