"""Tests of kickouts: who is due, and on which evidence."""
