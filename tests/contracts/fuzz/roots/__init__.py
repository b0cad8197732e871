"""Random calls of QoSRoots, QoSWords and QoSChallenge, each predicted by a separate model."""
