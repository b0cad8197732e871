"""What a release is made of: pinned versions, wheels built twice, their bill, image digests."""
