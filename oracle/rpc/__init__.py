"""The JSON-RPC stack: client, endpoint pool, health, capabilities, typed errors."""
