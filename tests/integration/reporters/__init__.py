"""Three reporters as processes: `qos-oracle run`, each with its own files, keys and database."""
