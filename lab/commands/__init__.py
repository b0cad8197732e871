"""Commands that compare rules over a network's history and over simulated networks."""
