"""Tests of what can be asked of a database."""
