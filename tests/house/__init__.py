"""Tests of repository rules that no linter covers."""
