"""Between the app and the lab: threads that hold an open session and tell the app what happens there."""
