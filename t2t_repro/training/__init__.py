"""Loss, learning rate, train step, train loop and checkpoints."""
