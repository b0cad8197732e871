"""The same network on three EVM nodes, Anvil, Hardhat's and Ganache, indexed by the daemon.

What must come out the same, and what cannot, is said in `ledgers.py`.
"""
