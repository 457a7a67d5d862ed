"""The scripts run in the Bash 3.2 and with the BSD tools of macOS, as far as can be seen here."""

import re
import subprocess

import pytest

from tests.processes import CHECKOUT

SCRIPTS = sorted([*CHECKOUT.glob("scripts/**/*.sh"), CHECKOUT / ".ci" / "run"])

LATER_BASH = (
    r"\b(mapfile|readarray|coproc)\b|\b(declare|local|typeset) -\w*[An]|\|&|&>>|;;&"
    r"|\$\{\w+(,|\^)|\$\{\w+@|\bwait -n\b|\bEPOCH(SECONDS|REALTIME)\b|\[\[ -v "
)
GNU_TOOLS = (
    r"(?<![-\w])(nproc|timeout|tac|realpath|numfmt|shuf|setsid|sha256sum)\s"
    r"|\breadlink -f|\bsed (-\w*i|-r)|\bdate (-d|--date)|\bgrep -\w*P|\bstat -c|\bxargs -r"
    r"|\bhead -n -|\bcp -\w*[tu]|\bmktemp --"
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_what_only_newer_shells_and_gnu_tools_know_is_not_used(script):
    text = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in script.read_text().splitlines())
    assert not [found[0] for found in re.finditer(f"{LATER_BASH}|{GNU_TOOLS}", text)]
    subprocess.run(["bash", "-n", script], check=True)


def test_an_environment_s_kind_is_named_for_a_script_s_own_arguments_would_be_taken():
    lines = {
        script: re.findall(r"^ *source .*environment\.sh.*", script.read_text(), re.MULTILINE)
        for script in SCRIPTS
    }
    assert {"evidence.sh", "quickstart.sh"} <= {script.name for script in SCRIPTS if lines[script]}
    for script, found in lines.items():
        for line in found:
            assert re.search(r"environment\.sh\"? (base|test|gpu|plots)$", line), script
    done = subprocess.run(
        ["bash", "-c", 'source "$0"', CHECKOUT / "scripts" / "environment.sh", "--seeds=3"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == (
        "error: environment.sh was given '--seeds=3', expected base, test, gpu or plots.\n"
    )
