"""The paper's building blocks in plain NumPy: slow, obvious, and nothing of the package in them."""

import numpy as np


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    return np.log(softmax(np.asarray(x, np.float64)))


def layer_norm(x, gamma, beta):
    deviation = x - x.mean(-1, keepdims=True)
    return deviation / np.sqrt((deviation**2).mean(-1, keepdims=True) + 1e-6) * gamma + beta


def attention(query, keys, values, allowed=None):
    """One head, one sentence, by loops: [queries, d_k], [keys, d_k], [keys, d_v]."""
    output = np.zeros((len(query), values.shape[1]))
    for i in range(len(query)):
        places = [j for j in range(len(keys)) if allowed is None or allowed[i, j]]
        weights = np.array([np.exp(query[i] @ keys[j] / np.sqrt(len(query[i]))) for j in places])
        for weight, j in zip(weights / weights.sum(), places, strict=True):
            output[i] += weight * values[j]
    return output


def multi_head_attention(layer, query, memory, allowed=None):
    """One sentence: a loop over the heads, each with its columns of W^Q, W^K, W^V."""
    projections = (
        layer.query_projection, layer.key_projection, layer.value_projection,
        layer.output_projection,
    )  # fmt: skip
    w_q, w_k, w_v, w_o = (p.kernel.numpy() for p in projections)
    b_q, b_k, b_v, b_o = (p.bias.numpy() if p.use_bias else np.zeros(p.units) for p in projections)
    queries, keys, values = query @ w_q + b_q, memory @ w_k + b_k, memory @ w_v + b_v
    heads = []
    for h in range(layer.num_heads):
        of_k = slice(h * layer.d_k, (h + 1) * layer.d_k)
        of_v = slice(h * layer.d_v, (h + 1) * layer.d_v)
        heads.append(attention(queries[:, of_k], keys[:, of_k], values[:, of_v], allowed))
    return np.concatenate(heads, axis=-1) @ w_o + b_o


def neighbourhood(n, r):
    """Who sees whom with restricted attention, [n, n]: the position and r // 2 on either side."""
    return np.abs(np.subtract.outer(np.arange(n), np.arange(n))) <= r // 2
