"""Contracts of other networks on a real EVM, indexed by the daemon."""
