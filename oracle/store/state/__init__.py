"""Stores the folded state, the undo journal, and snapshots of the state."""
