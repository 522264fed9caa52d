"""Write signed bundles of results and practice, and evaluate the bundles of a class."""
