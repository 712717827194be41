"""The configuration: `schema` says which keys there are, the yaml files beside it give them values."""
