"""What tests stand on: databases, histories, references, chains, fakes."""
