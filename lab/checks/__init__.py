"""The checks and readings that all TOML files of lessons and drills share, also to recognise mistakes."""
