"""Several reporters, one answer: each signs once, and any transmitter gathers a quorum of them."""
