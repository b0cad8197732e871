"""What is said of the network to whoever asks: one function for each page and each `/v1` path."""
