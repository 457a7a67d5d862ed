"""One test for all layers: what every Keras layer has to be able to do."""

import keras
import numpy as np
import tensorflow as tf


def randomize(layer, seed=0, spread=lambda weight: 0.3, shape=None):
    """Gives every weight random values: biases at zero and norms at one hide much.

    Args:
        layer: or a model, which is built if it is not.
        seed: of the values.
        spread: of a weight's values around 0, or around 1 for the scale of a norm.
        shape: of the inputs that it is built for.

    Returns:
        the layer.
    """
    if not layer.built:
        layer.build(shape)
    rng = np.random.default_rng(seed)
    for weight in layer.trainable_weights:
        centre = 1.0 if weight.name == "gamma" else 0.0
        weight.assign(rng.normal(centre, spread(weight), weight.shape))
    return layer


def output_and_gradients(layer, *inputs, direction=1.0, **masks):
    """What a layer gives, and the gradients of its inputs and weights.

    Args:
        layer: has been built.
        inputs: positional arguments of its `call`.
        direction: in which the output is to move.
        masks: keyword arguments of `call`.
    """
    tensors = [tf.convert_to_tensor(x) for x in inputs]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        output = layer(*tensors, **masks)
        loss = tf.reduce_sum(tf.cast(output, tf.float32) * direction)
    weights = [weight.value for weight in layer.trainable_variables]
    return [output, *tape.gradient(loss, [*tensors, *weights])]


def run_layer_test(layer_class, config, inputs, output_shape, num_weights, masks=None):
    """Checks a layer: shapes, weights, configuration, graph, training step, mixed precision.

    Args:
        layer_class: of the layer.
        config: arguments of its constructor, without dropout.
        inputs: positional arguments of its `call`, float32 or int32 arrays.
        output_shape: what `call` returns.
        num_weights: how many numbers the layer learns.
        masks: keyword arguments of `call`.
    """
    masks = masks or {}
    layer = layer_class(**config)
    output = layer(*inputs, **masks)
    assert tuple(output.shape) == tuple(output_shape)
    input_shape = tf.nest.map_structure(np.shape, inputs[0])
    assert layer.compute_output_shape(input_shape) == tuple(output_shape)
    assert layer.count_params() == num_weights
    randomize(layer)
    output = layer(*inputs, **masks).numpy()
    assert np.isfinite(output).all()

    _check_config(layer, inputs, masks, output)
    _check_unknown_shapes(layer, inputs, masks, output)
    _check_training_step(layer, inputs, masks)
    _check_mixed_precision(layer_class, config, layer, inputs, masks)


def _check_config(layer, inputs, masks, output):
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert "dtype" in layer.get_config()
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(layer))
    restored(*inputs, **masks)
    restored.set_weights(layer.get_weights())
    np.testing.assert_array_equal(restored(*inputs, **masks), output)


def _check_unknown_shapes(layer, inputs, masks, output):
    """One graph serves every batch and length."""

    def unknown(x):
        width = [x.shape[-1]] if x.dtype == np.float32 else [None]
        return tf.TensorSpec([None] * (x.ndim - 1) + width, x.dtype)

    specs = tf.nest.map_structure(unknown, (inputs, masks))
    graph = tf.function(lambda inputs, masks: layer(*inputs, **masks), input_signature=specs)
    inputs, masks = tf.nest.map_structure(tf.constant, (inputs, masks))
    np.testing.assert_allclose(graph(inputs, masks), output, atol=1e-5)


def _check_training_step(layer, inputs, masks):
    """Gradient reaches every weight, as a dense tensor, and an update changes every one."""
    with tf.GradientTape() as tape:
        output = layer(*inputs, **masks, training=True)
        direction = np.random.default_rng(1).normal(size=output.shape).astype(np.float32)
        loss = tf.reduce_sum(output * direction)
    weights = layer.trainable_variables
    gradients = tape.gradient(loss, [w.value for w in weights])
    before = [w.numpy() for w in weights]
    for weight, gradient in zip(weights, gradients, strict=True):
        assert isinstance(gradient, tf.Tensor), (weight.path, gradient)
    keras.optimizers.SGD(0.1).apply(gradients, weights)
    for weight, old in zip(weights, before, strict=True):
        assert np.isfinite(weight.numpy()).all(), weight.path
        # A bias of keys adds the same to all scores of a query: its gradient is zero but for
        # rounding.
        assert (weight.numpy() != old).any() or weight.path.endswith("/key/bias"), weight.path
        weight.assign(old)


def _check_mixed_precision(layer_class, config, layer, inputs, masks):
    """bfloat16 out of float32 weights, about the same numbers; without a global policy."""
    mixed = layer_class(**config, dtype="mixed_bfloat16")
    output = mixed(*inputs, **masks, training=True)
    assert output.dtype == tf.bfloat16
    assert {w.dtype for w in mixed.trainable_weights} <= {"float32"}
    mixed.set_weights(layer.get_weights())
    expected = layer(*inputs, **masks).numpy()
    difference = np.abs(tf.cast(mixed(*inputs, **masks), tf.float32).numpy() - expected)
    assert difference.mean() < 0.03 * np.abs(expected).mean()
