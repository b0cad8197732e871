"""Settings: TOML file and environment, checked, with all faults reported at once."""
