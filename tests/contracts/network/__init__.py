"""TaskNetwork on a real EVM."""
