"""Detects suspected incidents: bursts of an application's timeouts, and network outages."""
