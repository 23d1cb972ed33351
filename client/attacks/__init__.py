"""Attacks on what a federation releases: who was among the training nodes?"""
