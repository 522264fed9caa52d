"""The course in the app: it follows the open lesson while the student works on any screen."""
