"""The setup commands: config, contract, endpoint, init, keys and selftest."""
