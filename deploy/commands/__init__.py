"""The commands of `fedtag`, a module for each purpose.

They import what they need when they run, and their annotations are objects and no text, which typer would have to
compile: help comes at once.
"""
