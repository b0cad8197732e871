"""Commands that read a database, or ask an endpoint."""
