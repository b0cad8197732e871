"""Answers that are cut, late, wrong, too large or another question's."""
