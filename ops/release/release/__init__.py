"""Makes releases: pins versions, builds packages and images twice, lists and signs the result."""
