"""Every room of the store, on both engines."""
