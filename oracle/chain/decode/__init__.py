"""Decodes the bytes of logs and calls into domain values, without using `eth_abi`."""
