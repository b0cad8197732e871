"""Tests of read API responses, from a database with a history."""
