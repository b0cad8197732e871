"""Network profiles: TOML files that define how contracts are read, and their compiler."""
