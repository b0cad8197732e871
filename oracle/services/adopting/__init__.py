"""Goes on with an account whose database was lost, from what the chain has seen of it."""
