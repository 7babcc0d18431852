"""Copies of MedEvalKit's prompts and MMMU's file of them, with texts of our own."""

from pathlib import Path

MEDEVALKIT = {
    "choices": "\nAsked: {question}\nOne of:\n{options}\nName it by its letter.",
    "yes/no": "{question}\nIs it so?",
    "closed": "{question}\nOne word will do.",
    "closed, Chinese": "{question}\n一个词就够。",
    "open": "{question}\nSay it shortly.",
    "open, Chinese": "{question}\n说短一点。",
    "report": "Write both parts. Findings: {} Impression: {}.",
}
CONFIGURATION = """task_instructions:
- ""
multi_choice_example_format:
- "Asked: {}

{}

Which letter?"

short_ans_example_format:
- "{}

Shortly, please."
temperature:
- 0
"""


def mmmu(root: Path, text: str = CONFIGURATION) -> Path:
    """Returns a folder like a clone of MMMU's code."""
    (root / "mmmu" / "configs").mkdir(parents=True, exist_ok=True)
    (root / "mmmu" / "configs" / "llava1.5.yaml").write_text(text, "utf-8")
    return root
