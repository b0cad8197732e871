"""Experiments on stored histories; only the command line imports them."""
