"""Tests of Pocket's selector: upstream's vectors, an independent reference, and the policies."""
