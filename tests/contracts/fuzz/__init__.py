"""Random calls on the oracle contracts in an EVM of this process, each predicted by a model."""
