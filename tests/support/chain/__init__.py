"""A chain in memory, served over HTTP, and the logs of our contracts."""
