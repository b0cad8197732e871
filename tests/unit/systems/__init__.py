"""Tests of the systems of the sources."""
