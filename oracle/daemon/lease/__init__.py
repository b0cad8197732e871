"""The lease: who may write, who holds it, and whether the holder still lives."""
