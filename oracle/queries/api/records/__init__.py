"""Answers about single tasks, groups, rounds, kickouts and draws, and about stored events."""
