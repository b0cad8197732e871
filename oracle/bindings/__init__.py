"""Calls, views, errors, events and deployment of the oracle's and the network's contracts."""
