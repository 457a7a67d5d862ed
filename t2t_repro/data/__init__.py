"""Where sentence pairs come from, and how they become batches of token ids."""
