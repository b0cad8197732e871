"""Shared code of the tests: databases, histories, reference implementations, chains and fakes."""
