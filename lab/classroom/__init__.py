"""Bundles, which are signed files of results and practice, and the evaluation of a class's bundles."""
