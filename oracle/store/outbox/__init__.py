"""Repositories of the outbox: intents, nonces, attempts, accounts, statements, journal."""
