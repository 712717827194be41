"""How a policy version travels from the learner to whoever acts with it: the weight bus, and files."""
