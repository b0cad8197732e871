"""Tests of incidents: the rule, and what it finds and does not find."""
