"""The legacy system: rounds, windows and trios, the vectors, and a reference of our own."""
