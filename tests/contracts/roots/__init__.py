"""Roots and what reads them, on a real EVM."""
