"""Tests of the roots, blooms and hashes that prove the responses of endpoints."""
