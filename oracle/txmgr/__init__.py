"""The transaction manager: calls out, from nonce to finality; knows no customer."""
