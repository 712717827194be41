"""What the tasks of the dexterous hand share: names, the way from actions to joint targets, and senses."""
