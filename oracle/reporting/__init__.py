"""Builds reports at the end of periods, checks and signs them, and pushes them to the contract."""
