"""The show: a local chain, simulated nodes and an independent check of what the daemon did."""
