"""Tests of every repository of the store, on both engines."""
