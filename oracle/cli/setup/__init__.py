"""Commands for the setup: config, contract, endpoint, init, keys and selftest."""
