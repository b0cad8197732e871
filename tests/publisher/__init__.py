"""Tests of signing, paying, sending and reading what came of it."""
