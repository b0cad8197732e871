"""Fetches windows of blocks, and chooses the endpoints and the sizes of ranges for them."""
