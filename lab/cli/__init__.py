"""The raidlab command. Nothing else in the core prints, or depends on rich and cyclopts."""
