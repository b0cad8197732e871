"""Feeds' rows become events: no socket, no database."""
