"""Builds a report at the end of each period, checks, signs and pushes it to the contract."""
