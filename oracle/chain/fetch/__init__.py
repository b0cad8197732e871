"""Fetches windows of blocks, choosing endpoints and range sizes."""
