"""The same network on three EVM nodes, Anvil, Hardhat's and Ganache, indexed by the daemon.

`ledgers.py` documents which values must be equal, and which cannot be.
"""
