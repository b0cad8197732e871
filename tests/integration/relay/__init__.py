"""Tests of a simulated relay, and of the audit of its rows, over real HTTP."""
