"""Fetches windows of blocks, for which it chooses endpoints and the sizes of ranges."""
