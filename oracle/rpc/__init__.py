"""Sends JSON-RPC requests to a pool of endpoints, and tracks each endpoint's health."""
