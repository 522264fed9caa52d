"""The app's widgets. They show plain values and post messages named in the past tense."""
