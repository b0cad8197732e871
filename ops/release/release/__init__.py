"""Makes releases: pins versions, builds everything twice, and lists and signs the results."""
