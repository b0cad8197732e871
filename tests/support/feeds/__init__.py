"""A relay for tests, and who follows it."""
