"""Tests of adapters for networks without support for oracles."""
