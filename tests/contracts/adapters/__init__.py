"""Adapters in front of networks that know nothing of the oracle."""
