"""Reads the settings from the TOML file and the environment, and reports all faults together."""
