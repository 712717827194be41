"""Other learners: our environments in their terms, and what they train as a run that can be watched live."""
