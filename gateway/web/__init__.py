"""The service's requests and answers over HTTP."""
