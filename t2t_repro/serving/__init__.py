"""A REST server for trying a trained model on this machine."""
