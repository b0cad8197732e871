"""A local network to develop against; imported by the command line only."""
