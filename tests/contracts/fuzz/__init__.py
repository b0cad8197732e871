"""Random calls of the oracle contracts in an EVM in this process, each predicted by a model."""
