"""Chains that change their mind, final blocks that change, kickouts called back."""
