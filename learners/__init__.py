"""Environments for other learners: a bare Env in one call, and Gymnasium's interfaces of it."""
