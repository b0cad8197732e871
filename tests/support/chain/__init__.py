"""A chain in memory that is served over HTTP, and the logs of our contracts."""
