"""Profiles: the logs of other networks' contracts become events of the domain."""
