"""Suspected incidents: an application whose tasks time out everywhere, and a network outage."""
