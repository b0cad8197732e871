"""Records which of the functions cited in docs/fidelity/ run in the daemon and in commands."""
