"""The faults that a fake endpoint can have."""
