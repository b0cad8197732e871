"""Read-only queries behind `status`, `explain`, `select`, `queue`, `replay` and the read API."""
