"""A network with a history, and daemons and commands that use it."""
