"""Repositories of the daemon's operation: lease, halts, identity, bookmarks, endpoint facts."""
