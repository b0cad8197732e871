"""The audit of a relay: its live figures compared with those derived from its published rows."""
