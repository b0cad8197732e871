"""Responses that are truncated, late, wrong, too large, or for another request."""
