"""The doors: command line and web."""
