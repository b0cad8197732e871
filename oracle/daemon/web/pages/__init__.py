"""Renders the pages at `/`, which show the data of the read API and need no scripts."""
