"""Results: immutable records, the folder that stores them, and the statistics of their repeats."""
