"""What is remembered of one endpoint: circuit breaker, rate limit, status, capabilities."""
