"""Detects network outages, and bursts of an application's timeouts, as suspected incidents."""
