"""The closed loop: a simulated network in which each draw depends on the scores so far."""
