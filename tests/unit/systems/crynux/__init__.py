"""Tests of the current Crynux system: weights, draws and queues, vectors, and a reference."""
