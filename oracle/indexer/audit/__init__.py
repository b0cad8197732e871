"""Verification of stored rows: audits, row differences, gaps, repair."""
