"""What the tasks of the dexterous hand share: its names, how actions become joint targets, what it senses."""
