"""Every lie of an endpoint against every company that it may be in, and what becomes of it."""
