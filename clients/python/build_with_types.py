"""flit's build backend, which first makes `countersign/api.py` from the API's description. An archive of the source has that file already."""

from pathlib import Path

from datamodel_code_generator.__main__ import main
from flit_core import buildapi
from flit_core.buildapi import *

HERE = Path(__file__).parent
DESCRIPTION = HERE / "../../crates/server/tests/golden/openapi.json"
OPTIONS = """--input-file-type openapi --output-model-type typing.TypedDict --no-use-closed-typed-dict --enum-field-as-literal all
    --use-schema-description --target-python-version 3.11 --formatters builtin --disable-timestamp""".split()


def with_types(build):
    def hook(*arguments, **named):
        if DESCRIPTION.exists() and main(["--input", str(DESCRIPTION), "--output", str(HERE / "countersign/api.py"), *OPTIONS]) != 0:
            raise SystemExit(f"no types could be made from {DESCRIPTION}")
        return build(*arguments, **named)

    return hook


build_wheel = with_types(buildapi.build_wheel)
build_editable = with_types(buildapi.build_editable)
build_sdist = with_types(buildapi.build_sdist)
