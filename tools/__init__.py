"""What maintains the project itself: its package list, its table of settings, its links for the checks."""
