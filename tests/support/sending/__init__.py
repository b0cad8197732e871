"""Proxies, fuses, stalls and key thefts around a real publisher."""
