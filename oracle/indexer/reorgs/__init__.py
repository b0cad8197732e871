"""Reorgs: fork detection, rewinding, and the halt after a finality violation."""
