"""The histories that docs/explanation/comparison.md speaks of, and whether it tells the truth."""
