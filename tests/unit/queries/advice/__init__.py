"""Tests of `oracle.queries.advice`."""
