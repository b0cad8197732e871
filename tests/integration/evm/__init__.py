"""Tests of single services on a real EVM."""
