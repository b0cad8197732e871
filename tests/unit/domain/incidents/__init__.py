"""Incidents: the rule, what it finds, and what it does not find."""
