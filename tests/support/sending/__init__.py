"""Proxies, fuses, stalls and thieves around a real publisher."""
