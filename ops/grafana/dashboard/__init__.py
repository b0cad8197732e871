"""The Grafana dashboard, drawn from one table over the metrics.

`make dashboard` writes `ops/grafana/qos-oracle.json`. Whoever adds a metric gives it a place in
one of the rows.
"""
