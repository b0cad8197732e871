"""Testbeds and harnesses: a publisher on a real chain."""
