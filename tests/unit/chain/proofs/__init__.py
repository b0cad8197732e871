"""Tests of the roots, blooms and hashes that prove what endpoints say."""
