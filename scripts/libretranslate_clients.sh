#!/usr/bin/env bash
# Asks a running server through libretranslatepy, deep-translator (fields in the URL) and Weblate's
# own class for LibreTranslate. They come from PyPI into an environment of their own. The server, for example:
#   python -m t2t_repro.serve --model_dir=runs/quickstart_both_ways/model --direction=en-de,de-en
#   bash scripts/libretranslate_clients.sh http://localhost:8501 [key]
set -euo pipefail
url="${1:?expected the address of a server, such as http://localhost:8501}"
environment="${TMPDIR:-/tmp}/libretranslate_clients"
[ -d "$environment" ] || python3 -m venv "$environment"
source "$environment/bin/activate"
pip install -q deep-translator==1.11.4
pip install -q --no-deps libretranslatepy==2.1.4 weblate==5.14.3
# What Weblate requires, without four packages that need C libraries and draw, scan or back up.
python - > "$environment/requirements.txt" <<'EOF'
import re
from importlib.metadata import requires

for one in requires("weblate"):
    if "extra ==" not in one and not re.match("(?i)pycairo|pygobject|tesserocr|borgbackup", one):
        print(one)
EOF
pip install -q -r "$environment/requirements.txt"

python - "$url" "${2:-}" <<'EOF'
import sys
from unittest.mock import MagicMock

import django
from deep_translator import LibreTranslator
from django.conf import settings
from libretranslatepy import LibreTranslateAPI

url, key = sys.argv[1:]
texts = [
    "Emma flew from Iceland to Portugal on March 3, 2021.",
    "The museum is open from 9:00 AM to 5:30 PM on Friday. Paul read 95 pages in 47 minutes.",
]
client = LibreTranslateAPI(url, key or None)
print("libretranslatepy", client.languages())
for text in texts:
    print("libretranslatepy", client.translate(text, "en", "de"))
other = LibreTranslator("en", "de", use_free_api=False, custom_url=f"{url}/", api_key=key or "-")
print("deep-translator", other.translate(texts[0]))

sys.modules |= dict.fromkeys(("cairo", "gi", "gi.repository", "tesserocr"), MagicMock())
from weblate import settings_example

values = {name: value for name, value in vars(settings_example).items() if name.isupper()}
cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
database = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
settings.configure(**values | {"CHECK_LIST": [], "CACHES": {"default": cache}, "DATABASES": {"default": database}})
django.setup()
from weblate.machinery.libretranslate import LibreTranslateTranslation

service = LibreTranslateTranslation({"url": url, "key": key})
service.validate_settings()
print("Weblate", service.supported_languages, service.is_supported("en", "de"))
found = service.download_multiple_translations("en", "de", [(text, None) for text in texts])
for text in texts:
    print("Weblate", found[text][0]["text"])
assert [found[text][0]["text"] for text in texts] == [
    client.translate(text, "en", "de") for text in texts
]
try:
    LibreTranslateTranslation({"url": url, "key": "wrong"}).download_multiple_translations(
        "en", "de", [(texts[0], None)]
    )
    print("Weblate: the server has no key")
except Exception as error:
    print("Weblate, with a wrong key:", error)
EOF
