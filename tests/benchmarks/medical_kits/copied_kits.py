"""Writes copies of MedEvalKit's and MMMU's files of prompts in the same form, with texts of our own."""

from __future__ import annotations

from pathlib import Path

FORMATS = '''
def get_multiple_choice_prompt(question,choices,is_reasoning = False,lang = "en"):
    choices = [str(choice) for choice in choices]
    options = "\\n".join(choices)

    if lang == "en":
        prompt = f"""
Asked: {question}
One of:
{options}"""
        if is_reasoning:
            prompt = prompt + "\\n" + 'Reason, then give "\\\\boxed{}".'
        else:
            prompt = prompt + "\\n" + "Name it by its letter."
    return prompt

def get_judgement_prompt(question,is_reasoning = False, lang = "en"):
    if lang == "en":
        if is_reasoning:
            prompt = question + "\\n" + 'Reason, then give "\\\\boxed{}".'
        else:
            prompt = question + "\\n" + "Is it so?"
    elif lang == "zh":
        prompt = question + "\\n" + "对吗?"
    return prompt

def get_close_ended_prompt(question,is_reasoning = False, lang = "en"):
    if lang == "en":
        prompt = question + "\\n" + "One word will do."
    elif lang == "zh":
        prompt = question + "\\n" + "一个词就够。"
    return prompt

def get_open_ended_prompt(question,is_reasoning = False, lang = "en"):
    if lang == "en":
        prompt = question + "\\n" + "Say it shortly."
    elif lang == "zh":
        prompt = question + "\\n" + "说短一点。"
    return prompt

def get_report_generation_prompt():
    prompt = "Write both parts. Findings: {} Impression: {}."
    return prompt
'''
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


def medevalkit(root: Path, text: str = FORMATS) -> Path:
    """Returns a folder like a clone of MedEvalKit."""
    (root / "utils").mkdir(parents=True, exist_ok=True)
    (root / "utils" / "question_formats.py").write_text(text, "utf-8")
    return root


def mmmu(root: Path, text: str = CONFIGURATION) -> Path:
    """Returns a folder like a clone of MMMU's code."""
    (root / "mmmu" / "configs").mkdir(parents=True, exist_ok=True)
    (root / "mmmu" / "configs" / "llava1.5.yaml").write_text(text, "utf-8")
    return root
