"""The institution's side: data, texts, condensation, training, evidence."""
