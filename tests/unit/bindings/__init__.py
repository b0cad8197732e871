"""Tests of what our contracts say, refuse and emit."""
