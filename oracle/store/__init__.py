"""All SQL of the project: repositories inside a unit of work, on SQLite and PostgreSQL."""
