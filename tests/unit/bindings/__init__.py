"""Tests of the contracts' calls, errors and events."""
