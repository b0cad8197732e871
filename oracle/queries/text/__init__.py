"""Answers as words and tables for people."""
