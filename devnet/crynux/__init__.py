"""Networks that are not ours, on the local chain: stand-ins of Crynux's contracts, and traffic."""
