"""The demo: simulated nodes, and the screen."""
