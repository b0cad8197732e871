"""Events as they are written and read."""
