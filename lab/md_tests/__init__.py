"""Run mdadm's own test suite in the embedded kernel, and separate new failures from those that are known upstream."""
