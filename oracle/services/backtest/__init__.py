"""A history folded anew under several systems and measured: how a network chooses its numbers."""
