"""Signers of other people: KMS, and one behind HTTP."""
