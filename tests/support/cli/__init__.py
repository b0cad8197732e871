"""A network with a history, and daemons and commands on it."""
