"""Writes the JSON Schema of each file of results from its type; the schemas are for tools that read these files.

`python -m medtune.eval.results.json_schema` writes the schemas into the folder of this module.
"""

import inspect
import json
import re
from collections.abc import Mapping
from pathlib import Path

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core.core_schema import DataclassSchema

from medtune.eval.audit.findings import FindingsFile
from medtune.eval.comparing.compare_file import CompareFile
from medtune.eval.results.schema import AuditFile, DoctorFile, ResultsFile, ScoresFile

FILES: Mapping[str, type[object]] = {
    "results.schema.json": ResultsFile,
    "scores.schema.json": ScoresFile,
    "audit.schema.json": AuditFile,
    "compare.schema.json": CompareFile,
    "doctor.schema.json": DoctorFile,
    "findings.schema.json": FindingsFile,
}
FOLDER = Path(__file__).parent
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ATTRIBUTE = re.compile(r"^    (\w+): (.*(?:\n {5,}.*)*)", re.MULTILINE)


class _Described(GenerateJsonSchema):
    def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
        made = super().dataclass_schema(schema)
        for kind in reversed(schema["cls"].__mro__[:-1]):
            summary, _, attributes = inspect.cleandoc(kind.__doc__ or "").partition("\n\nAttributes:\n")
            made["description"] = " ".join(summary.split())
            for name, text in _ATTRIBUTE.findall(attributes):
                made["properties"][name]["description"] = " ".join(text.split())
        return made


def schema_text(kind: type[object]) -> str:
    described = TypeAdapter(kind).json_schema(schema_generator=_Described)
    return json.dumps({"$schema": _DIALECT, **described}, indent=1) + "\n"


if __name__ == "__main__":
    for name, kind in FILES.items():
        (FOLDER / name).write_text(schema_text(kind), "utf-8")
