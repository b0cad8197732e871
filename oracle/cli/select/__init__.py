"""The commands `select`, `queue` and `draws`."""
