"""Daemons that die, stall, or work at the same time."""
