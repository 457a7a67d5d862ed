"""Models of transformers, with the files that `save_pretrained` writes."""
