"""Tests of the daemon's parts: scheduler, lease, health, settings."""
