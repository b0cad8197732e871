"""The systems of the sources: how each scores nodes, and how each picks one for a task."""
