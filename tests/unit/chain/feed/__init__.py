"""Rows of a feed become events; no socket, no database."""
