"""Tests of scores: vectors, properties, statements of the sources."""
