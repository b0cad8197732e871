"""The contracts, each on a real EVM."""
