"""Commands on a database that has indexed a real chain."""
