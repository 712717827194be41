"""What improves a policy: the contract of an algorithm, the algorithms, and the training around them."""
