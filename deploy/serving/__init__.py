"""Services: the programs of a link or of a site, kept running together, and what they say of themselves."""
