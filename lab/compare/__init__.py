"""Two results side by side: whether they may be compared, by how much they differ, and whether that can be told."""
