"""Public answers about the network, with one function for each page and each path of `/v1`."""
