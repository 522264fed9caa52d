"""The app's side of the course: it follows the open lesson while the student works on any screen."""
