"""Results: immutable records, the folder that holds them, and what can be said of their repeats."""
