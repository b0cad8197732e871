"""The demonstrations: one module for each kind of network."""
