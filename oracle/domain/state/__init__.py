"""Nodes, tasks and groups as the fold leaves them."""
