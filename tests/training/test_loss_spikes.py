"""A jump of the loss is told once; noise and descent are none."""

import numpy as np

from t2t_repro.training.loss_spikes import LossSpikes


def test_a_spike_is_told_once_and_the_next_one_again(caplog):
    rng = np.random.default_rng(0)
    losses = (4.0 * np.exp(-np.arange(400) / 200) + rng.normal(0, 0.05, 400)).tolist()
    losses[250:253] = [9.0, 9.5, 8.0]
    losses[300] = 7.0
    spikes = LossSpikes()
    told = [step for step, loss in enumerate(losses) if spikes.observe(step, loss)]
    assert told == [250, 300]
    assert len(caplog.messages) == 2
    assert "step 250: the loss jumped to 9.000" in caplog.messages[0]


def test_the_beginning_of_a_run_is_no_spike():
    spikes = LossSpikes()
    assert not any(spikes.observe(step, loss) for step, loss in enumerate([8.0, 30.0, 9.0, 8.5]))


def test_an_odd_batch_of_a_task_that_is_learnt_is_no_spike():
    losses = np.random.default_rng(0).normal(0.05, 0.01, 300)
    losses[[150, 200]] = 0.65, 0.99
    spikes = LossSpikes()
    assert not any(spikes.observe(step, loss) for step, loss in enumerate(losses.tolist()))
    assert spikes.observe(300, 1.2)
