"""Signers outside of the process: KMS, remote ones, TLS."""
