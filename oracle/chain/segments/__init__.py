"""Preparation of history by workers, applied in order (docs/explanation/segments.md)."""
