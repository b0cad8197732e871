"""Which functions that docs/fidelity/ cites ran, in the daemon and in commands."""
