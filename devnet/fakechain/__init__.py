"""A chain of real blocks behind endpoints that misbehave on demand."""
