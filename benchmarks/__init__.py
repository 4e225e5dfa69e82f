"""Speed side by side with what a user would pick instead; each module is a script."""
