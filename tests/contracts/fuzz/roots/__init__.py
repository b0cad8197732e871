"""Random calls on QoSRoots, QoSWords and QoSChallenge, each predicted by a model of its own."""
