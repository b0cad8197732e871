"""Every lie of an endpoint, in every combination with other endpoints, and its outcome."""
