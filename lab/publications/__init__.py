"""The lint of published studies: rules for their texts, and for recipes of shell commands."""
