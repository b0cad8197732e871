"""Feeds: event sources besides the chain, fetched over HTTP, validated and turned into events."""
