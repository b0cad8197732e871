"""The read-only commands, such as explain, replay, export, rules, nodes, status and audit."""
