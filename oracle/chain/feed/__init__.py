"""Feeds beside the chain: fetched over HTTP, validated and turned into events."""
