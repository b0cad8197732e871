"""The rules of the domain as pure functions on integers, without I/O, clock or logging."""
