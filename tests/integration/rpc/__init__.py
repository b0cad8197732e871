"""Tests over real sockets: endpoints, signers and peers whose responses the tests set."""
