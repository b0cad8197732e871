"""How scores come about: rules, ranking, reliability, windows."""
