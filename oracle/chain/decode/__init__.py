"""Decoding of log and call bytes into domain values, without `eth_abi`."""
