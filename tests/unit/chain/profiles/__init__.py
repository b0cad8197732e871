"""Profiles: what the contracts of other networks say, in our words."""
