"""Decodes the bytes of logs and calls into domain values, without `eth_abi`."""
