"""Fixtures for every floor: real databases."""

pytest_plugins = ["tests.databases"]
