"""The Grafana dashboard (publishing.md 3.10), drawn from one table over the metrics.

`python -m oracle.telemetry.dashboard.drawing FILE` writes it; `ops/grafana/qos-oracle.json` is
what that wrote last. Whoever adds a metric gives it a place in one of the rows.
"""
