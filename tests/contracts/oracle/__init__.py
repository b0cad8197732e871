"""QoSOracle on a real EVM."""
