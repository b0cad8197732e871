"""Draws the animated picture of the demo in README.md, by a real run (`make picture`)."""
