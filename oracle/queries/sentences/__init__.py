"""Sentences about the answers of the read API, with numbers and times in words."""
