"""The methodology guard: named rules, and the checks that tell where a plan, a recipe or a result breaks them."""
