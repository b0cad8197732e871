"""Public answers about the network: one function for each page and each `/v1` path."""
