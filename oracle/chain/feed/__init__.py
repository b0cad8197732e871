"""Reads feeds over HTTP, and decodes their rows.

A feed is a source of events besides the chain.
"""
