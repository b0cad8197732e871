"""Verifies stored rows with other endpoints, finds gaps, and repairs wrong rows."""
