"""History prepared anywhere, and taken in order (docs/explanation/segments.md)."""
