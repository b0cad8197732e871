"""SQLAlchemy definitions of all tables."""
