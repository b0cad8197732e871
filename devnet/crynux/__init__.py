"""Stand-ins of Crynux's contracts on the local chain, and traffic for them."""
