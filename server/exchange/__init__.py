"""Exchanges with the clients: instructions out, screened replies in."""
