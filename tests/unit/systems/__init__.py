"""Tests of the systems that the source documents describe."""
