"""Tests of commands that read a database or query an endpoint."""
