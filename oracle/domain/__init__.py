"""The domain rules as pure functions of whole numbers: no I/O, no clock, no log."""
