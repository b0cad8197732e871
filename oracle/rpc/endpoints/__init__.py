"""Tracks the state of each endpoint: circuit breakers, rate limit, status and capabilities."""
