"""Verifies stored rows against other endpoints, finds gaps, and repairs wrong rows."""
