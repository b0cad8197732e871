"""Tracks each endpoint's state: circuit breakers, rate limit, status and capabilities."""
