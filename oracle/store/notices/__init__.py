"""Repositories of what subscribers are told, and how far each was."""
