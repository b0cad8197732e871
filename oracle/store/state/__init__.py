"""Repositories of folded state, and the undo journal."""
