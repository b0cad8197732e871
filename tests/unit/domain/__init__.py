"""The rules, by vectors, by properties and by short histories."""
