"""The transaction manager: sends calls and follows them from nonce to finality."""
