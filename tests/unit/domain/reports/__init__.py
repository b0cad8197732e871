"""Tests of reports: their content, their plausibility, and when one is worth its cost."""
