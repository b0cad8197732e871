"""Scoring: rules, ranking, reliability, windows."""
