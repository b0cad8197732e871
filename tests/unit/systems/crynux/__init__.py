"""Crynux today: weights, draws and queues, the vectors, and a reference of our own."""
