"""The peers, a module each, in the one interface that `worker.py` calls.

    training_step(size, dtype) -> train(batch) -> loss
    training_round(size, dtype, variant, batches) -> do_round() -> target tokens
    decoder(arguments, size, variant) -> decode(sources) -> translations

`train` does one whole update and waits for it. A peer that cannot be given batches has a
`training_round`. `decode` takes all batches of source ids and gives the best translation of every
sentence, in order, as ids. What a peer cannot do it answers with NotImplementedError. Each module
is imported in the peer's own environment only.
"""
