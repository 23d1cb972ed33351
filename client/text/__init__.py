"""Texts: chunks, the frozen encoder, its cache, the on-device language model."""
