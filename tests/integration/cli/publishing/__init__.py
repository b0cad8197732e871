"""Commands that sign, send, or look at what was sent."""
