"""Proves what endpoints say: roots, blooms and hashes, computed from the content itself."""
