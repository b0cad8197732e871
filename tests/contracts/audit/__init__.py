"""What programs prove and find of the contracts: Halmos, Slither and solhint."""
