"""The app, which is a Textual user interface for lab, and its text mode."""
