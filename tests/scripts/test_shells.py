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
    r"(?<![-\w])(nproc|timeout|tac|numfmt|shuf|setsid|sha256sum)\s"
    r"|\breadlink -f|\bsed (-\w*i|-r)|\bdate (-d|--date)|\bgrep -\w*P|\bstat -c|\bxargs -r"
    r"|\bhead -n -|\bcp -\w*[tu]|\bmktemp --"
)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_parse_and_use_nothing_that_macos_lacks(script):
    text = "\n".join(re.sub(r"(^|\s)#.*", "", line) for line in script.read_text().splitlines())
    assert not [match[0] for match in re.finditer(f"{LATER_BASH}|{GNU_TOOLS}", text)]
    subprocess.run(["bash", "-n", script], check=True)
