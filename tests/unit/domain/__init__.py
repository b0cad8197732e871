"""Tests of the rules with vectors, properties and short histories."""
