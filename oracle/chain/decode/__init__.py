"""From the bytes of logs and calls to domain values, without `eth_abi`."""
