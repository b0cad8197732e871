"""State of an endpoint: circuit breaker, rate limit, status, capabilities."""
