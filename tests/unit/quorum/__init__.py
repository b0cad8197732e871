"""Tests of statements, their signatures and the peers that exchange them."""
