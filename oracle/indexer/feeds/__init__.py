"""Off-chain feeds: polled rows are checked, settled, and placed in the order of the chain."""
