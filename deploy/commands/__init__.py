"""The commands of `fedtag`, a module for each purpose. They import what they need when they run."""
