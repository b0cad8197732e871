"""Static analysis and proofs of the contracts: Halmos, Slither and solhint."""
