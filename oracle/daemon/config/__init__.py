"""Settings: TOML file and environment, checked, every complaint at once."""
