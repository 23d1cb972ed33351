"""Looking into what runs left: evidence, faithfulness, privacy."""
