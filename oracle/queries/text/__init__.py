"""Formats answers as text and tables for people."""
