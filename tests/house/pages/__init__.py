"""Tests of the documentation: pages, links, citations, and generated tables."""
