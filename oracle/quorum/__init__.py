"""Signs reports, exchanges signatures with other reporters, and collects a quorum (k of n)."""
