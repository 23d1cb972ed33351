"""DANCE on the client: condense, rebuild, train, score, keep evidence."""

from fedtag.client.methods.dance.method import METHOD as METHOD
