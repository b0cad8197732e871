"""Tests of the daemon process: starting, following, publishing, stopping."""
