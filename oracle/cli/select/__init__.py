"""`select`, `queue`, `draws`."""
