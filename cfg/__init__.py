"""The configuration: yaml groups, and what composes them and the command line, checked against the schema."""
