"""The lint: named rules, and checks that find violations in a plan, a recipe or a result."""
