"""The configuration: yaml groups, and the code that composes and checks them together with the command line."""
