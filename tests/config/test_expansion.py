"""Bindings that become too many, or have no end, when gin puts in what they refer to."""

import gin
import pytest

from t2t_repro import experiment  # noqa: F401 (for gin)
from t2t_repro.config.gin_files import configure
from t2t_repro.decoding.beam_search import BeamSearch
from t2t_repro.errors import UserError

MANY = "expected at most 100,000 values in all bindings, references followed"
DEEP = "expected at most 50 references and brackets, one in another"
BACK = "expected what does not lead back to itself"


def chain(line, count=42):
    """Lines of which each refers to the one before."""
    return [line.format(number, number - 1) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a0 = 1", *chain("a{0} = (%a{1}, %a{1})")], MANY),
        (["a0 = 1", *chain("a{0} = {{'x': [%a{1}], 'y': %a{1}}}")], MANY),
        (["s/a0 = 1", *chain("s/a{0} = (%s/a{1}, %s/a{1})")], MANY),
        (["a0/macro.value = 1", *chain("a{0}/macro.value = (%a{1}, %a{1})")], MANY),
        (
            [
                "s0/TrainingSchedule.steps = 1",
                *chain(
                    "s{0}/TrainingSchedule.steps = "
                    "(@s{1}/TrainingSchedule(), @s{1}/TrainingSchedule())"
                ),
            ],
            MANY,
        ),
        (
            [
                "s0/TrainingSchedule.steps = 1",
                *chain(
                    "s{0}/TrainingSchedule.steps = [@s{1}/TrainingSchedule, @s{1}/TrainingSchedule]"
                ),
            ],
            MANY,
        ),
        (["a0 = '" + "x" * 300_000 + "'", "a = (" + "%a0, " * 20 + ")"], MANY),
        (["a0 = 1", *chain("a{0} = %a{1}", 60)], DEEP),
        (["a0 = 1", *chain("a{0} = [%a{1}]", 30)], DEEP),
        (["BeamSearch.beam_size = %a", "a = %a"], "a is %a, " + BACK),
        (["a = (1, %b)", "b = [%a]"], BACK),
        (["BeamSearch.beam_size = @BeamSearch()"], BACK),
        (["Translator.search = @s/BeamSearch()", "BeamSearch.beam_size = @s/BeamSearch()"], BACK),
        (["a = @" + "s/" * 21 + "BeamSearch"], "expected at most 20 scopes"),
        (["s/" * 21 + "BeamSearch.beam_size = 1"], "expected at most 20 scopes"),
        (["BeamSearch.beam_size = @s/singleton()"], "expected no part of gin itself"),
        (["BeamSearch.beam_size = @constant()"], "expected no part of gin itself"),
        (["a = {%b: 1}", "b = []"], "expected no reference for a key"),
    ],
)
def test_what_has_no_end_is_one_line(lines, message):
    with pytest.raises(UserError, match=f"{message}") as caught:
        configure(None, lines, ["BeamSearch", "Translator", "TrainingSchedule"])
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_an_included_file_is_counted_as_often_as_it_is_included(tmp_path):
    for number in range(9):
        path = tmp_path / f"{number}.gin"
        path.write_text(f"include '{tmp_path}/{number + 1}.gin'\n" * 2)
    (tmp_path / "9.gin").write_text("BeamSearch.beam_size = 2\n")
    with pytest.raises(UserError, match="more than 100 files are included"):
        configure(tmp_path / "0.gin", [], ["BeamSearch"])
    configure(tmp_path / "5.gin", [], ["BeamSearch"])
    assert BeamSearch().beam_size == 2


def test_scopes_and_macros_mean_what_gin_means_by_them():
    lines = [
        "size = %wide/size",
        "wide/size = 3",
        "Translator.search = @wide/BeamSearch()",
        "BeamSearch.length_penalty = 0.5",
        "wide/BeamSearch.beam_size = %size",
        "BeamSearch.beam_size = 7",
    ]
    configure(None, lines, ["Translator"])
    search = gin.query_parameter("Translator.search").scoped_configurable_fn()
    assert (search.beam_size, search.length_penalty) == (3, 0.5)
