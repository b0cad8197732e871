"""The commands that only read, such as explain, replay, export, rules, nodes, status and audit."""
