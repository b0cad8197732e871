"""A real EVM for tests: Anvil on a free port, and a chain on it that is driven block by block."""
