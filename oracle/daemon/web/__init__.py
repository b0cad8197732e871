"""What the daemon answers over HTTP, and what keeps strangers from stopping it."""
