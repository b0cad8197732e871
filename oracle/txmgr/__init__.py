"""The transaction manager, which sends calls and follows them from nonce to finality."""
