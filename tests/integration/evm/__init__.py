"""Services of one room each on a real EVM."""
