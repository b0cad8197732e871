"""Tests of the indexer on real databases, with a scripted chain."""
