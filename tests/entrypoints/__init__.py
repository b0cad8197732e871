"""Tests of the doors: command line, HTTP, the daemon as a process."""
