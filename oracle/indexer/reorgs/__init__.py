"""Forks: what is the chain's now, how far back we go, and when everything stops."""
