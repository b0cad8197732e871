"""A stand-in for Crynux's relay, with its event stream and its own figures over HTTP."""
