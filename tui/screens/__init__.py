"""The app's screens, each with a module and a style sheet."""
