"""The client of the lab: threads that hold an open session and post messages about it to the app."""
