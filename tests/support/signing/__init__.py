"""External signers: KMS, and a remote signer over HTTP."""
