"""Domain events and their JSON-lines form."""
