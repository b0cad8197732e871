"""The tables, as SQLAlchemy knows them."""
