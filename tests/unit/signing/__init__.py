"""Tests of keys, signers and typed data."""
