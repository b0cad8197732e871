"""Domain events, and their encoding as JSON lines."""
