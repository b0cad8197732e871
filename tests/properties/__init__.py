"""Long Hypothesis runs: whatever happens, the index equals the chain in the end."""
