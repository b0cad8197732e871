"""Random calls on a QoSOracle in an EVM of this process, each foretold by a model of its own."""
