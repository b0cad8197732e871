"""The index against everything at once: random faults, kill -9, and other ways to the same end."""
