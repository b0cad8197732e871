"""All SQL: one unit of work over repositories, on SQLite and PostgreSQL."""
