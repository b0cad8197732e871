"""Signs reports, exchanges signatures with the other reporters, and collects a quorum (k of n)."""
