"""Tests of signers outside the process: KMS, remote signers, TLS."""
