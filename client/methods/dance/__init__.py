"""DANCE on the client: condense, rebuild, train, score, keep evidence."""

from client.methods.dance.method import Dance

METHOD = Dance()
