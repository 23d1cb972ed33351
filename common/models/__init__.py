"""Backbones and the modules around them."""
