"""The tests, in folders named like the packages of the product."""
