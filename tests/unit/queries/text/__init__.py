"""Tests of `oracle.queries.text`."""
