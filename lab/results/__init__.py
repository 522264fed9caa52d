"""Results: immutable records, the folder that stores them, and statistics over repeated measurements."""
