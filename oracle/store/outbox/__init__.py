"""Stores the outbox: intents, nonces, attempts, accounts, statements and the journal."""
