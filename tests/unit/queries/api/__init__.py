"""Answers of the read API, made over a database with a history."""
