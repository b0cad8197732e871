"""Verification of windows: calibration, header checks, blooms and receipts."""
