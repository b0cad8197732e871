"""Generates the Grafana dashboard from a list of panels.

`make dashboard` writes `ops/grafana/qos-oracle.json`. Every metric must be in a panel, so a new
metric has to be added to one of the rows.
"""
