"""The state of nodes, tasks and groups."""
