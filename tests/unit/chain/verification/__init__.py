"""Tests of the rules by which headers are trusted."""
