"""Tests of the keeper of the hot set: which words the contract accepts now."""
