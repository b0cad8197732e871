"""Repositories of the outbox: intents, nonce slots, attempts, accounts, signed statements, journal."""
