"""The `resync` commands, which rewind, rebuild, complete, verify and repair the index."""
