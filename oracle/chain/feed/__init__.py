"""Feeds beside the chain: asked over HTTP, checked for shape, turned into events."""
