"""Loads and compiles profiles, which are TOML files that define how contracts are read."""
