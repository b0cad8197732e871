"""Chains that were recorded from an endpoint and can be served again."""
