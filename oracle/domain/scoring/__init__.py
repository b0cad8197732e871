"""Computes scores, from the rules, the ranks in groups, reliability and legacy windows."""
