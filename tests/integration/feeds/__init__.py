"""A relay over real HTTP beside a scripted chain."""
