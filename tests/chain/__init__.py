"""Tests of oracle/chain: against Anvil, and against a served chain that fails as it is told."""
