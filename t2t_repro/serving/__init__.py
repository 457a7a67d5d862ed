"""Servables: a trained model in the forms that start without t2t_repro."""
