"""The histories that docs/comparison.md speaks of, and whether it tells the truth."""
