"""Tests of the queries of the database."""
