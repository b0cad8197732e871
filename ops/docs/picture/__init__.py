"""Draws the animated picture of the demo in README.md from a real run (`make picture`)."""
