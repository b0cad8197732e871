"""Calls, views, errors, events and deployments of the oracle's and the network's contracts."""
