"""Reading the chain: endpoints, heads, logs, decoding."""
