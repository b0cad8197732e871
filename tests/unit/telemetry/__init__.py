"""Tests of the daemon's logs, metrics and traces."""
