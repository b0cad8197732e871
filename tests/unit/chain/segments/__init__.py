"""Segments as bytes, frames, and the order of windows."""
