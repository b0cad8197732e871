"""Kickouts that wait, are late, or were proposed on a fork."""
