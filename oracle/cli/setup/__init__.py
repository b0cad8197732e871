"""The commands for the setup, which are config, contract, endpoint, init, keys and selftest."""
