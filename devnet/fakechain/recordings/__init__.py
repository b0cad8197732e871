"""Recorded chains: written from an endpoint, and served again."""
