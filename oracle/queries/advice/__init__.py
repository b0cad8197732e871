"""Advice for the owner of a node: the outlook on a kickout, what-if results, work and money."""
