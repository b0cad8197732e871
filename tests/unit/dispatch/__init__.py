"""Tests of draws and starts of tasks."""
