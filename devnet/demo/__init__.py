"""The demo: simulated nodes, and the terminal screen."""
