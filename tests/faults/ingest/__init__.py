"""The 76 fault cases of ingest, each played through the real parts."""
