"""The read API `/v1` over HTTP; what it says is made in `oracle/queries/api`."""
