"""Domain rules as pure functions on integers: no I/O, no clock, no logging."""
