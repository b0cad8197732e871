"""Contains all SQL of the project, in repositories that work on SQLite and PostgreSQL."""
