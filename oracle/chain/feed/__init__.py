"""Reads feeds, which are sources of events besides the chain, over HTTP and decodes their rows."""
