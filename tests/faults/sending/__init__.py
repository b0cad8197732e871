"""The 74 fault cases of publishing, each played with the product's components on a real chain."""
