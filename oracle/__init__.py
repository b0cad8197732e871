"""qos-oracle: folds a compute network's events into QoS scores and reports them on-chain."""

__version__ = "0.1.0"
