"""What we know of each endpoint: its health, its rights, what it serves, and whose chain it is."""
