"""Endpoints that are down, slow, unusual, quarantined or readmitted."""
