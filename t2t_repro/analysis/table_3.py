"""The paper's Table 3, "Variations on the Transformer architecture", as published."""

from typing import NamedTuple


class Row(NamedTuple):
    """A row of Table 3. BLEU and perplexity are of newstest2013, without averaged checkpoints.

    Attributes:
        group: "base", "A" ... "E" or "big".
        change: what differs from base, in the table's own symbols.
        gin_file: the experiment.
        steps: updates.
        perplexity: per subword of the paper's vocabulary.
        bleu: tokenised, compounds split; see `paper_bleu`.
        millions: of parameters.
    """

    group: str
    change: str
    gin_file: str
    steps: int
    perplexity: float
    bleu: float
    millions: int

    @property
    def name(self) -> str:
        """The experiment's name: that of its gin file, and of its folder below runs/."""
        return self.gin_file.rsplit("/", 1)[1].removesuffix(".gin")


_BASE_STEPS = 100_000


def _ablation(
    group: str, change: str, name: str, perplexity: float, bleu: float, millions: int = 65
) -> Row:
    file = f"gin/ablations/{name}.gin"
    return Row(group, change, file, _BASE_STEPS, perplexity, bleu, millions)


TABLE_3 = (
    Row("base", "", "gin/base_ende.gin", _BASE_STEPS, 4.92, 25.8, 65),
    _ablation("A", "h = 1, d_k = d_v = 512", "a_1_head", 5.29, 24.9),
    _ablation("A", "h = 4, d_k = d_v = 128", "a_4_heads", 5.00, 25.5),
    _ablation("A", "h = 16, d_k = d_v = 32", "a_16_heads", 4.91, 25.8),
    _ablation("A", "h = 32, d_k = d_v = 16", "a_32_heads", 5.01, 25.4),
    _ablation("B", "d_k = 16", "b_d_k_16", 5.16, 25.1, 58),
    _ablation("B", "d_k = 32", "b_d_k_32", 5.01, 25.4, 60),
    _ablation("C", "N = 2", "c_2_layers", 6.11, 23.7, 36),
    _ablation("C", "N = 4", "c_4_layers", 5.19, 25.3, 50),
    _ablation("C", "N = 8", "c_8_layers", 4.88, 25.5, 80),
    _ablation("C", "d_model = 256, d_k = d_v = 32", "c_d_model_256", 5.75, 24.5, 28),
    _ablation("C", "d_model = 1024, d_k = d_v = 128", "c_d_model_1024", 4.66, 26.0, 168),
    _ablation("C", "d_ff = 1024", "c_d_ff_1024", 5.12, 25.4, 53),
    _ablation("C", "d_ff = 4096", "c_d_ff_4096", 4.75, 26.2, 90),
    _ablation("D", "dropout 0.0", "d_dropout_0_0", 5.77, 24.6),
    _ablation("D", "dropout 0.2", "d_dropout_0_2", 4.95, 25.5),
    _ablation("D", "label smoothing 0.0", "d_label_smoothing_0_0", 4.67, 25.3),
    _ablation("D", "label smoothing 0.2", "d_label_smoothing_0_2", 5.47, 25.7),
    _ablation("E", "learned positions in place of sinusoids", "e_learned_positions", 4.92, 25.7),
    Row("big", "d_model = 1024, d_ff = 4096, h = 16, dropout 0.3, 300,000 steps",
        "gin/big_ende.gin", 300_000, 4.33, 26.4, 213),
)  # fmt: skip
"""In the paper's order."""
