"""Sections of the configuration, each with the faults that it can have by itself."""
