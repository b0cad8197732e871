"""How a call that has a nonce gets through: what it may cost, dearer twins, other calls for it."""
