"""Learning: the interface of an algorithm, the algorithms, and the training run around them."""
