"""The `resync` commands: rewind, rebuild, backfill, verify, gaps, refusal, dead-letters."""
