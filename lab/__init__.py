"""Experiments on stored histories; imported by the command line only."""
