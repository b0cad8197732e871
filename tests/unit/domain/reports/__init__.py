"""Reports: what is in one, what is plausible, when it is worth its cost."""
