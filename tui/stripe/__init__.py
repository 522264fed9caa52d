"""The bytes of a stripe: the Stripe screen."""
