"""One patch for each defence of ours: with it applied, the tests that it names must fail."""
