"""Fetches block windows: sizes ranges, chooses endpoints, and stores limits."""
