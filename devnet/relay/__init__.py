"""A stand-in of Crynux's relay: its event stream and its own figures, over HTTP."""
