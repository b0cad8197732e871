"""The demo with its simulated nodes and its terminal screen."""
