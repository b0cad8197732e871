"""Recorded chains, which are written from an endpoint and can be served again."""
