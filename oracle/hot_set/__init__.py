"""Keeps the words of the hot set up to date with the accepted rounds, and binds nodes to seats."""
