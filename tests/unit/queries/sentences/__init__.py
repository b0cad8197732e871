"""Tests of `oracle.queries.sentences`."""
