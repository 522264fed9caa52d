"""The app: a Textual user interface for lab, and its text mode."""
