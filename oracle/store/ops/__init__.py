"""Repositories of what runs the daemon: lease, halts, identity, bookmarks, facts."""
