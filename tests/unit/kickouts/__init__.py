"""Tests of kickouts: which nodes are due, and the evidence."""
