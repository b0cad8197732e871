"""A relay for tests, and a follower of its feed."""
