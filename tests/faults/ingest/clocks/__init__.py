"""Changes of the machine's clock while a daemon runs."""
