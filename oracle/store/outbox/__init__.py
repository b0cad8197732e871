"""Stores the outbox with its intents, nonces, attempts, accounts, statements and journal."""
