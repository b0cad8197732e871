"""Feeds beside the chain: what was polled is judged, settled, and put into the chain's order."""
