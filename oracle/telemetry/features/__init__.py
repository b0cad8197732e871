"""Metrics of what runs only where settings ask for it: a feed, a gateway, notices, each node."""
