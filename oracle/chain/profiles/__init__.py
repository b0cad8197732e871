"""Loads and compiles profiles: TOML files that define how contracts are read."""
