"""How the contracts of a network are read: TOML profiles, compiled to event mappings."""
