"""mdadm's own test suite in the embedded kernel: what passes, what fails as upstream knows, what fails otherwise."""
