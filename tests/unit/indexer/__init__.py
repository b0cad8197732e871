"""Tests of the indexer on real databases, against a chain that does as it is told."""
