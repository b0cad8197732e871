"""The clients of the read API, against a live server."""
