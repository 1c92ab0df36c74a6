"""Who is active, where the next one goes on, and whether the clock can be believed."""
