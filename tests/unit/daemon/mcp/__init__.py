"""The tools of the Model Context Protocol, and its messages."""
