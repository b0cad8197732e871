"""Tests of reading a chain: windows, logs, decoding, sources."""
