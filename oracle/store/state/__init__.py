"""Stores the folded state, its snapshots and the undo journal."""
