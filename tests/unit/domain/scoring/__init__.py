"""Scores from histories: vectors, properties, statements of the source."""
