"""The transaction manager's requests to endpoints; this package uses no database."""
