"""Tests with recorded chains of real contracts, replayed and compared with the recorded truth."""
