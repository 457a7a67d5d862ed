"""The script does what docs/wmt14.md says that it does."""

import re

from tests.processes import CHECKOUT


def test_the_page_has_the_script_s_commands():
    page = (CHECKOUT / "docs" / "wmt14.md").read_text(encoding="utf-8")
    (said,) = re.findall(r"\nwhich is\n\n```bash\n(.*?)```", page, re.DOTALL)
    (called,) = re.findall(r"reproduce_base_ende\.sh (--gin_param=.*)", page)
    script = (CHECKOUT / "scripts" / "reproduce_base_ende.sh").read_text(encoding="utf-8")
    commands = re.findall(r"^python .*\n", script, re.MULTILINE)
    assert said == "".join(commands).replace('"$@"', called)
