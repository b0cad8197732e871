"""Audits a relay by comparing its live scores with scores derived from its published rows."""
