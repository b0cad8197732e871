"""`resync` rewind, refold, backfill, verify, gaps, deadletter."""
