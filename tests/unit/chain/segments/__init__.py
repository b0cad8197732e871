"""Segments as bytes, frames, and the order in which windows are given."""
