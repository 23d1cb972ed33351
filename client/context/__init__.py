"""What a method is given: a site's data, and what it may know and do in one exchange of a run."""
