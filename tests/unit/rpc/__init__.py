"""Tests of the RPC client: endpoints, their health, and rejected responses."""
