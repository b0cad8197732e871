"""Tests of the one RPC stack: endpoints, their health, and what they refuse."""
