"""Tests of three reporters as processes: `qos-oracle run` with separate files,
keys and databases.
"""
