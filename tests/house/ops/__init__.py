"""Tests of the files for operators: alerts, dashboards, services."""
