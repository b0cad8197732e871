"""Chains that were recorded from an endpoint, and that can be served again."""
