"""Tests of the legacy system: rounds, windows and trios, vectors, and a reference."""
