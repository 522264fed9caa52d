"""The raidlab command: the only part of the core that prints, and that knows rich and cyclopts."""
