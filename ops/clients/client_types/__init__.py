"""Generates the types of the clients from the OpenAPI description of the read API."""
