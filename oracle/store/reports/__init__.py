"""Repositories of reports, holds and signed statements."""
