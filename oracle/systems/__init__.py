"""The supported systems: how each scores nodes, and how each selects a node for a task."""
