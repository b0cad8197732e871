"""Tests over real sockets: endpoints, signers and peers that do as they are told."""
