"""Endpoints that are down, slow, strange, quarantined and readmitted."""
