"""A long life among endpoints that fail by lot: nothing is lost, and memory stays flat."""
