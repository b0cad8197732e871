"""The Model Context Protocol: tools for assistants that read scores and their reasons."""
