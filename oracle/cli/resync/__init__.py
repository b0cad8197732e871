"""`resync` rewind, rebuild, backfill, verify, gaps, dead-letters."""
