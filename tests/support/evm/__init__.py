"""A real EVM for tests: Anvil on a free port, with a chain that tests drive block by block."""
