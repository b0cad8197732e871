"""Rows of logs: packed, narrow, and read through a view."""
