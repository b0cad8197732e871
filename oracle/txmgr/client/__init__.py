"""Sends the transaction manager's requests to endpoints, without using a database."""
