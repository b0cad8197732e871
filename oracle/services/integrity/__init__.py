"""How sure we are of what we hold, and what is done to be surer (chain.md 3.9, 3.10, 3.14)."""
