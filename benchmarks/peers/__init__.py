"""The peers, a module each, in the one interface that `worker.py` calls.

    training_step(size, dtype) -> train(batch) -> loss
    decoder(arguments, size, variant) -> decode(sources) -> translations

`train` does one whole update and waits for it. `decode` takes all batches of source ids and gives
the best translation of every sentence, in order, as ids. What a peer cannot do it answers with
NotImplementedError. Each module is imported in the peer's own environment only.
"""
