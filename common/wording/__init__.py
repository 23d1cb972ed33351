"""What errors, reports, cards and pages say in the same words."""
