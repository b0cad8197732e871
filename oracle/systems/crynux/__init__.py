"""Crynux today: QoS from validation groups, and a weighted draw (seeds/000 and 002)."""
