"""A stand-in for Crynux's relay that serves events and its own figures over HTTP."""
