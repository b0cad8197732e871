"""Tests of a gateway's selection service, without a network."""
