"""Code that the benchmark scripts share."""
