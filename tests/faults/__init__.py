"""The 76 fault cases, each played through the real parts: endpoints lie, the index does not."""
