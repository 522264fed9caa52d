"""Results: immutable records, the folder that holds them, and statistics that assume no distribution."""
