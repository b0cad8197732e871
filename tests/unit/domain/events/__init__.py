"""Tests of writing and reading events."""
