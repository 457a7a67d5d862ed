"""The paper's Table 3, "Variations on the Transformer architecture", as published."""

from typing import NamedTuple


class Row(NamedTuple):
    """A row of Table 3. BLEU and perplexity are of newstest2013, without averaged checkpoints.

    Attributes:
        group: "base", "A" ... "E" or "big".
        change: what differs from base, in the table's own symbols.
        name: the experiment's: that of its gin file, and of its folder below runs/.
        perplexity: per subword of the paper's vocabulary.
        bleu: tokenised, compounds split; see `paper_bleu`.
        millions: of parameters.
        steps: updates.
    """

    group: str
    change: str
    name: str
    perplexity: float
    bleu: float
    millions: int = 65
    steps: int = 100_000


BASE = "base_ende"
"""The name of the row that the others are variations of."""

TABLE_3 = (
    Row("base", "", BASE, 4.92, 25.8),
    Row("A", "h = 1, d_k = d_v = 512", "a_1_head", 5.29, 24.9),
    Row("A", "h = 4, d_k = d_v = 128", "a_4_heads", 5.00, 25.5),
    Row("A", "h = 16, d_k = d_v = 32", "a_16_heads", 4.91, 25.8),
    Row("A", "h = 32, d_k = d_v = 16", "a_32_heads", 5.01, 25.4),
    Row("B", "d_k = 16", "b_d_k_16", 5.16, 25.1, 58),
    Row("B", "d_k = 32", "b_d_k_32", 5.01, 25.4, 60),
    Row("C", "N = 2", "c_2_layers", 6.11, 23.7, 36),
    Row("C", "N = 4", "c_4_layers", 5.19, 25.3, 50),
    Row("C", "N = 8", "c_8_layers", 4.88, 25.5, 80),
    Row("C", "d_model = 256, d_k = d_v = 32", "c_d_model_256", 5.75, 24.5, 28),
    Row("C", "d_model = 1024, d_k = d_v = 128", "c_d_model_1024", 4.66, 26.0, 168),
    Row("C", "d_ff = 1024", "c_d_ff_1024", 5.12, 25.4, 53),
    Row("C", "d_ff = 4096", "c_d_ff_4096", 4.75, 26.2, 90),
    Row("D", "dropout 0.0", "d_dropout_0_0", 5.77, 24.6),
    Row("D", "dropout 0.2", "d_dropout_0_2", 4.95, 25.5),
    Row("D", "label smoothing 0.0", "d_label_smoothing_0_0", 4.67, 25.3),
    Row("D", "label smoothing 0.2", "d_label_smoothing_0_2", 5.47, 25.7),
    Row("E", "learned positions in place of sinusoids", "e_learned_positions", 4.92, 25.7),
    Row("big", "d_model = 1024, d_ff = 4096, h = 16, dropout 0.3, 300,000 steps",
        "big_ende", 4.33, 26.4, 213, 300_000),
)  # fmt: skip
"""In the paper's order."""
