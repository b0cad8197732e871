"""Tests of the devnet's endpoints and their faults."""
