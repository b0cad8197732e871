"""Clocks of the machine that are set while a daemon runs."""
