"""A JSON-RPC chain of real blocks that misbehaves on demand: several providers, one script."""
