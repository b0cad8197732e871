"""Tests of what decides whether headers are believed."""
