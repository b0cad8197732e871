"""Every repository of the store, on both engines."""
