"""The tests, in rooms named like those of the product."""
