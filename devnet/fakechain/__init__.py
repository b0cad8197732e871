"""A simulated chain of valid blocks, and endpoints that misbehave on demand."""
