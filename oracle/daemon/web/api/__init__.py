"""Serves the read API `/v1` over HTTP; the answers are computed in `oracle/queries/api`."""
