"""A local network to develop against; only the command line imports it."""
