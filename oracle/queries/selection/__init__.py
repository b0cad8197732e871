"""Candidates, weights and draws of tasks, for read-only commands and the read API."""
