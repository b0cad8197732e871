"""Sends JSON-RPC requests to a pool of endpoints, and tracks the health of each endpoint."""
