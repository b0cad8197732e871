"""Tests of commands that need no chain."""
