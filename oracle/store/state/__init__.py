"""Repositories of folded state, with the undo journal and state snapshots."""
