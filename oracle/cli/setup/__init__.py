"""Commands that set up: config, contract, endpoint, keys, selftest."""
