"""Draws and starts of tasks."""
