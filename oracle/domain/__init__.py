"""The rules, pure: whole numbers in, whole numbers out; no I/O, no clock, no log."""
