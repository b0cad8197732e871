"""Events into state: the fold, block by block."""
