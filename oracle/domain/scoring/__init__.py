"""Computes scores from the rules, group ranks, reliability and legacy windows."""
