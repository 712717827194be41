"""The parts that tasks of the dexterous hand share: names, the mapping from actions to joint targets, and senses."""
