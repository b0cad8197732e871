"""A simulated chain of valid blocks, with endpoints that misbehave on demand."""
