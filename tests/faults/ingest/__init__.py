"""The 76 fault cases of ingest, each played with the product's own components."""
