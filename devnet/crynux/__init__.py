"""Stand-ins for Crynux's contracts on the local chain, and traffic for them."""
