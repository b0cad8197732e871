"""A stand-in of the relay, and the audit that holds it to its rows, over real HTTP."""
