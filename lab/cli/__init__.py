"""The raidlab command: the only part of the core that prints, and that depends on rich and cyclopts."""
