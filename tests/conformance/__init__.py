"""Compares other implementations of docs/spec/ with `replay`, on random histories."""
