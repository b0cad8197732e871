"""Premises and offices: a publisher on a real chain."""
