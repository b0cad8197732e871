"""Tests of commands that sign, send, or list sent transactions."""
