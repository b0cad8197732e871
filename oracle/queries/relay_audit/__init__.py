"""The audit of a relay: its live scores compared with scores derived from its published rows."""
