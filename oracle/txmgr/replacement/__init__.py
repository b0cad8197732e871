"""Fee bumps, and another call on a nonce that waits."""
