"""Tests of the read API's clients with a live server."""
