"""The layers of the Transformer, each under the name the paper gives it."""
