"""The chain queries of the transaction manager; this package uses no database."""
