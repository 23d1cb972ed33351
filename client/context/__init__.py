"""What a method works with: the site's data, the run's context."""
