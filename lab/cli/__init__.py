"""The raidlab command: the only part of the core that prints, and the only one that depends on rich and cyclopts."""
