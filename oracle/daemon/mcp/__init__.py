"""Serves the Model Context Protocol, by which assistants read scores and their explanations."""
