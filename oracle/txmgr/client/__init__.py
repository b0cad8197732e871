"""The requests of the transaction manager to endpoints; this package uses no database."""
