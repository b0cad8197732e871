"""Tests of `oracle.daemon.web.pages`."""
