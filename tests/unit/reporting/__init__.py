"""Tests of reports: when one is cut, planned and missed."""
