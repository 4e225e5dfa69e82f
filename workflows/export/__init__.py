"""From the front to production: choose a model, train it again, test it once, and write it for where it runs."""
