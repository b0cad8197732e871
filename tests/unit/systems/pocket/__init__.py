"""Pocket's selector: upstream's vectors, a reference of our own, and what we made of both."""
