"""Simulates known attacks in the closed loop, and compares each with an honest baseline."""
