"""Reads feeds (sources of events besides the chain) over HTTP, and decodes their rows."""
