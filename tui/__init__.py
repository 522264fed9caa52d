"""The app: a Textual client of lab."""
