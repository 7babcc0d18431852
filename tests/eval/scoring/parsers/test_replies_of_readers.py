"""Holds the reading of choices and of yes and no against replies that a careful human has read."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from medtune.benchmarks.vqa.label_replies import read_set
from medtune.data.types import AnswerKind, Question
from medtune.eval.scoring.label_sets import LABELS
from medtune.eval.scoring.parsers.choice_parsers import parse_choice
from medtune.eval.scoring.parsers.closed_parser import parse_closed
from medtune.eval.scoring.parsers.measures import read_measure
from tests.eval.scoring.parsers import blind_replies, kinds_of_replies, later_blind_replies, unseen_replies
from tests.eval.scoring.parsers.further_odd_replies import DOUBTFUL, FURTHER
from tests.eval.scoring.parsers.odd_replies import ODD
from tests.golden.files import COLLECTED

Listed = dict[tuple[str, ...], dict[str | None, tuple[str, ...]]]

MOST_UNREAD = 0.1
LONG, MOST_S = 20_000, 0.5


def asked(text: str, options: tuple[str, ...]) -> Question:
    kind: AnswerKind = "yes_no" if options == ("Yes", "No") else "choice"
    return Question("q", "m", text, options, options[0], kind, "p")


@pytest.mark.parametrize("name", ["choice", "hard_choice", "yes_no"])
def test_few_replies_stay_unread_and_none_is_wrong_or_invented(name: str) -> None:
    lines = (COLLECTED / "replies" / f"{name}.jsonl").read_text("utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    for parser in (parse_closed, parse_choice) if name != "yes_no" else (parse_closed,):
        read = [(row, parser(row["reply"], asked(row["question"], tuple(row["options"])))) for row in rows]
        assert [(row["reply"], said) for row, said in read if said not in (None, row["reading"])] == []
        unread = [said is None for row, said in read if row["reading"] is not None]
        assert sum(unread) <= MOST_UNREAD * len(unread)


@pytest.mark.parametrize("listed", [ODD, FURTHER, DOUBTFUL])
def test_few_odd_replies_stay_unread_and_none_is_wrong_or_invented(listed: Listed) -> None:
    read = [(*row, parse_choice(row[1], asked("Which?", row[0]))) for row in _rows(listed)]
    assert [each for each in read if each[3] not in (None, each[2])] == []
    unread = [said is None for *_, reading, said in read if reading is not None]
    assert sum(unread) <= MOST_UNREAD * len(unread)


@pytest.mark.parametrize("name", ["FIRST", "SECOND", "THIRD", "FOURTH"])
def test_few_unseen_replies_stay_unread_and_none_is_wrong_or_invented(name: str) -> None:
    choices, yes_no, numbers = (vars(unseen_replies)[f"{name}_{kind}"] for kind in ("CHOICES", "YES_NO", "NUMBERS"))
    read: list[tuple[str, Any, object]]
    read = [(reply, wanted, parse_choice(reply, asked("Which?", options))) for options, reply, wanted in _rows(choices)]
    read += [(reply, wanted, parse_closed(reply, asked(text, ("Yes", "No")))) for text, reply, wanted in _rows(yes_no)]
    read += [(reply, wanted, read_measure(reply, unit)) for unit, reply, wanted in _rows(numbers)]
    assert [each for each in read if each[2] not in (None, each[1])] == []
    unread = [said is None for _, reading, said in read if reading is not None]
    assert len(unread) > 60
    assert sum(unread) <= MOST_UNREAD * len(unread)


@pytest.mark.parametrize("name", ["ONE", "TWO", "THREE", "FOUR"])
def test_few_replies_of_somebody_who_knew_no_rule_stay_unread_and_none_is_wrong_or_invented(name: str) -> None:
    lists = vars(blind_replies) | vars(later_blind_replies)
    read = read_lists({kind: lists[f"{name}_{kind}"] for kind in ("CHOICES", "YES_NO", "NUMBERS", "SETS")})
    read = [each for each in read if each[0] not in blind_replies.DEBATED]
    assert [each for each in read if each[2] not in (None, each[1])] == []
    unread = [said is None for _, reading, said in read if reading is not None]
    assert len(unread) > 90
    assert sum(unread) <= MOST_UNREAD * len(unread)


def test_every_kind_of_the_blind_lists_is_read_in_other_words() -> None:
    assert [each for each in read_lists(vars(kinds_of_replies)) if each[1] != each[2]] == []


def read_lists(lists: Mapping[str, Any]) -> list[tuple[str, Any, object]]:
    choices, yes_no, numbers, sets = (_rows(lists[kind]) for kind in ("CHOICES", "YES_NO", "NUMBERS", "SETS"))
    read: list[tuple[str, Any, object]]
    read = [(reply, wanted, parse_closed(reply, asked("Which?", options))) for options, reply, wanted in choices]
    read += [(reply, wanted, parse_closed(reply, asked(text, ("Yes", "No")))) for text, reply, wanted in yes_no]
    read += [(reply, wanted, read_measure(reply, unit, asked=text)) for (text, unit), reply, wanted in numbers]
    read += [(reply, wanted, read_set(reply, _of_labels(labels))) for labels, reply, wanted in sets]
    return read


def _of_labels(labels: tuple[str, ...]) -> Question:
    return Question("q", "m", "Which?", (), labels[0], "set", "p", printed={LABELS: "\n".join(labels)})


def _rows(listed: Mapping[Any, Mapping[Any, Sequence[str]]]) -> list[tuple[Any, str, Any]]:
    return [
        (about, reply, reading)
        for about, by_reading in listed.items()
        for reading, replies in by_reading.items()
        for reply in replies
    ]


@pytest.mark.parametrize("joint", [" ", "\n", ""])
def test_a_long_reply_that_repeats_itself_is_read_in_half_a_second(joint: str) -> None:
    replies = [(options, reply) for options, read in ODD.items() for each in read.values() for reply in each]
    for options, reply in replies[::16]:
        text = (reply + joint) * (LONG // len(reply + joint) + 1)
        began_s = time.process_time()
        parse_choice(text[:LONG], asked("Which?", options))
        assert time.process_time() - began_s < MOST_S, reply


@pytest.mark.parametrize("reply", ["**Answer: 9.5 mm**", "| a ", "Sí", "wait ", "no cyst or ", "1, 2, ", "A: 0.1 "])
def test_a_long_reply_to_any_question_is_read_in_a_second(reply: str) -> None:
    text = (reply * LONG)[:LONG]
    began_s = time.process_time()
    parse_closed(text, asked("Is there a cyst?", ("Yes", "No")))
    read_measure(text, "mm", asked="How long?")
    read_set(text, _of_labels(("cyst", "mass")))
    assert time.process_time() - began_s < 2 * MOST_S


CLASSES = ("normal", "benign", "malignant")
ORGANS = ("Liver", "Right kidney", "Spleen", "Pancreas")
PHASES = ("Arterial phase", "Portal venous phase", "Delayed phase", "Non-contrast")
PLACES = ("upper left", "upper right", "lower left", "lower right", "center")
PLANES = ("Trans-thalamic plane", "Trans-cerebellar plane", "Trans-ventricular plane", "Abdominal plane")
COUNTS = ("1", "2", "3", "4 or more")
FINDINGS = ("Pleural effusion", "No pleural effusion", "Pneumothorax", "Both A and C")
STEPS = ("Tilt the probe towards the feet", "Increase the depth", "Press more firmly", "Freeze the image")
SIDES = ("Left lung", "Right lung", "Both lungs", "Neither lung")
GRADES = ("Grade I", "Grade II", "Grade III", "Grade IV")
MASSES = ("Cyst", "Solid mass", "Abscess", "Hematoma")
SIZES = ("0-2 cm", "2-5 cm", "more than 5 cm")
DENSITIES = ("50 HU", "100 HU", "-100 HU")
TRIMESTERS = ("first trimester", "second trimester", "third trimester")
READ: dict[tuple[str, ...], dict[str | None, str]] = {
    CLASSES: {
        "benign": (
            "B</s>|B<｜end▁of▁sentence｜>|B<end_of_turn>|B</answer>|<|im_start|>assistant\nB<|im_end|>|"
            "B<|endoftext|>A. normal|[ANSWER]B[/ANSWER]|<Answer>B. benign</Answer>|benign instead of malignant|"
            "The answer is B. Wait, let me check. Yes, B.|likely benign|Not malignant, not normal|second option|"
            "Rather benign than malignant.|benign (no suspicious features)|A is excluded, C is unlikely. B.|"
            "The lesion is more likely benign than malignant.|B is more likely than C.|B > C|the answer: 'B'|"
            "答案应为B|"
            "Although malignant lesions look similar, this one is benign.|I vote for B."
        ),
        "malignant": (
            "not benign but malignant|The answer is not B but C.|C rather than B|It isn't benign; it's malignant.|"
            "It is not benign, it is malignant.|No benign lesion, but a malignant one.|B. Wait, no. C.|"
            "Answer: B\nCorrection: C|Benign. Actually, no: malignant.|I first thought B, but the answer is C.|"
            "Die richtige Antwort ist C|Ich wähle C.|La respuesta correcta es C.|La respuesta es la opción C|"
            "La bonne réponse est C.|Réponse : C|A resposta é C.|La risposta corretta è la C|正确答案是C|应选C|"
            "选项C正确|故选C。|正解はCです|C是正确的|"
            "B... wait, actually C.|Hmm, A? No - C.|La respuesta correcta no es B, sino C.|Ce n'est pas B mais C.|"
            "Nicht B, sondern C|不是B，而是C|La opción correcta es C|Richtig ist C.|正确选项为C|"
            "Sorry, I meant C, not B.|"
            "La opción C es correcta.|Your answer was B; mine is C.|cancer|malignancy|the last option|"
            "答案是malignant|I am 95% sure that it is malignant.|C (confidence: 90%)|Malignant, with 90% confidence.|"
            "Answer: C (probability 0.8)|C. The probability of malignancy is about 80%.|Es ist C.|"
            "Ich entscheide mich für C.|C est la bonne réponse.|Die wahrscheinlichste Diagnose ist C.|"
            "Lo más probable es C.|Le plus probable est C.|最可能是C|最可能的诊断是malignant|病变是malignant|"
            "Die Läsion ist malignant.|La lesión es malignant.|The lesion takes up 50% of the breast and is "
            "malignant.|"
            "The image shows a malignant lesion, which may have spread.|Malignant, because it could be invasive.|"
            "The answer's C.|Going with C.|choose C|It's the third one.|Malignant > benign > normal|Definitely C|"
            "The lesion is not normal and not benign, so it is malignant.|Without a doubt, C.|C fits best|"
            "C best describes the image.|The image best matches C.|I'd rather say malignant than benign.|Not B. C.|"
            "C seems most likely.|B is wrong; C is right.|The only option that fits is C.|Looks like C.|"
            "malignant lesion, not benign|not a benign lesion, a malignant one|A malignant lesion, no doubt.|"
            "Given the history of cancer, malignant is most likely."
        ),
        None: (
            "no malignancy|There is no evidence of malignancy.|benign?|non-malignant|premalignant|"
            "either benign or malignant|A/B|2|B: malignant|Answer: C. benign|abnormal|BIRADS 5|The answer is D|"
            "The probability of malignant is 50%|50% benign, 50% malignant|A: 20%, B: 50%, C: 30%|B 50%, C 50%|"
            "A 10 %\nB 45 %\nC 45 %|malignant with a probability of 0.5|The chance of it being malignant is 1 in 2.|"
            "The odds of malignant are even.|The risk that it is malignant is low.|The probability of option C is "
            "50%|"
            "Benign and malignant are equally likely.|It is fifty-fifty benign or malignant.|Could be malignant.|"
            "I cannot say whether it is benign or malignant.|Hard to say, malignant perhaps.|Possibly malignant|"
            "It might as well be malignant.|Not sure. Malignant?|Cannot rule out malignant.|"
            "La probabilidad de malignant es del 50 %.|Die Wahrscheinlichkeit für malignant liegt bei 50 %.|"
            "La probabilité de malignant est de 50 %.|malignant的概率是50%|B和C的可能性各占一半|不是malignant|"
            "Rule out malignant.|A history of malignant disease.|malignant or inflammatory|"
            "No se puede decir si es B o C.|Ich kann nicht sagen, ob B oder C.|Je ne peux pas dire si c'est B ou C.|"
            "无法判断是B还是C|Entweder B oder C|Soit B, soit C|要么B要么C|O bien B o bien C|B oder C|B ou C|B或C|"
            "Tanto B como C|Die Läsion ist nicht malignant.|La lésion n'est pas malignant."
        ),
        "normal": "A normal scan|neither benign nor malignant|Normal, no benign or malignant lesion.",
    },
    ORGANS: {
        "Right kidney": "kidney|renal|the kidney on the right",
        "Spleen": "splenic tissue",
        "Pancreas": "pancreatic",
        "Liver": "right lobe of the liver",
        None: "left kidney|The left kidney.|stomach|right|The liver and the spleen.|Right lobe",
    },
    PHASES: {
        "Portal venous phase": "portal venous",
        "Arterial phase": "arterial|Late arterial phase",
        "Non-contrast": "noncontrast|non contrast CT|unenhanced",
        None: "phase|contrast|Venous",
    },
    PLACES: {
        "upper right": "top right",
        "center": "in the middle|centre",
        None: "left|upper|upper left or upper right",
    },
    PLANES: {"Trans-cerebellar plane": "transcerebellar plane|trans cerebellar", None: "plane|axial plane"},
    COUNTS: {"4 or more": "4|5 lesions|seven", "3": "There are 3.", None: "0|2 or 3|none|It is 21,1 cm|12 mm"},
    FINDINGS: {
        "No pleural effusion": "No pleural effusion is seen.|no effusion",
        "Pleural effusion": "effusion",
        None: "Both",
    },
    SIDES: {"Left lung": "left", "Both lungs": "bilateral|both", None: "Both the left and the right lung."},
    GRADES: {
        "Grade II": "grade 2|Grade two|2|It's a grade II tumour",
        "Grade III": "grade 3|III",
        None: "grade|Grade V|high grade|II-III|between I and II",
    },
    MASSES: {
        "Solid mass": "solid|solid tumour|solid lesion",
        "Hematoma": "haematoma",
        None: "mass or cyst|complex cystic and solid mass",
    },
    SIZES: {
        "2-5 cm": "3 cm|35 mm|between 2 and 5 cm|It measures 4 cm.|2 - 5 cm",
        "more than 5 cm": "> 5 cm|over 5 cm|larger than 5 cm|80 mm",
        "0-2 cm": "less than 2 cm|12 mm",
        None: "large|3 cm or 6 cm",
    },
    DENSITIES: {"-100 HU": "minus 100 HU|-100 HU", "50 HU": "about 50 HU", None: "-50 HU|75 HU"},
    TRIMESTERS: {"second trimester": "2nd trimester", "third trimester": "3rd", None: "second or third"},
    STEPS: {"Increase the depth": "Increase depth", None: "90 degrees|The image is good.|The depth is fine"},
}
EFFUSION, HEART, SIDE = "Is there a pleural effusion?", "Is the heart size normal?", "Is the lesion on the left side?"
SAID: dict[str, dict[str | None, str]] = {
    EFFUSION: {
        "Yes": (
            "There is a small effusion|Yes.</s>|<answer>yes</answer>|Ja, es gibt einen Erguss.|Sí|Sí, hay derrame.|"
            "是的|有胸腔积液|はい|是，有胸腔积液|Yes, with a probability of 80%.|Oui, il y a un épanchement.|"
            "Die Antwort ist ja.|答案：是|A pleural effusion is present.|Of course|present|It does.|"
            "Without a doubt.|Is there a pleural effusion? Yes, there is.|I can see a pleural effusion.|Y"
        ),
        "No": (
            "No, I am 80% certain.|No se observa derrame pleural.|Nein, kein Erguss.|"
            "No<|im_end|>|Nein.|Non, il n'y en a pas.|没有胸腔积液。|未见胸腔积液|无|"
            "La respuesta es no.|Definitely not|Not seen|"
            "Pleural effusion is absent|Negative for pleural effusion|without effusion|"
            "I don't see any pleural effusion|unlikely|"
            "The answer is yes. Wait, the angles are sharp. The answer is no."
        ),
        None: (
            "无法判断|不确定|可能有|The pleural effusion has resolved.|Pleural effusion cannot be excluded.|Maybe|0|"
            "The probability of a pleural effusion is 50%.|There is a 30% chance of pleural effusion.|50/50|"
            "The risk of a pleural effusion is 5%.|Either is possible.|Presence and absence are equally likely.|"
            "Podría haber un derrame.|Ein Erguss ist möglich.|Un épanchement est possible.|可能有胸腔积液|"
            "No lo sé.|Je ne sais pas.|No se puede determinar.|Nicht beurteilbar.|Ja oder nein|Sí o no|"
            "Oui ou non|是或否|No estoy seguro.|Pas sûr.|Quizás|Vielleicht|也许|"
            "History of pleural effusion.|There may be an effusion.|possible effusion|There is pneumothorax.|"
            "No, wait, yes."
        ),
    },
    "Is there a large effusion?": {"Yes": "There is a large effusion", None: "There is a small effusion."},
    "Is there a right pleural effusion?": {None: "There is a left pleural effusion."},
    HEART: {
        "Yes": "It is normal.|No abnormality is seen.|It is.",
        "No": (
            "The heart is enlarged.|Cardiomegaly.|There is cardiomegaly|abnormal|The heart size is not normal.|"
            "It isn't."
        ),
        None: "Heart size is borderline.|Absent|None.",
    },
    SIDE: {
        "Yes": "left|on the left|That's right.",
        "No": "It is on the right.|not on the left",
        None: "both sides|left and right",
    },
    "Is there a pneumothorax?": {
        "Yes": (
            "Pneumothorax: present|Positive for pneumothorax|A large left pneumothorax is present.|"
            "A 2 cm pneumothorax is seen."
        ),
        "No": "Pneumothorax: no|Pneumothorax: absent",
        None: "Effusion: present|Pneumothorax: possible",
    },
    "Is there a pneumothorax on the left?": {None: "A large right pneumothorax is present."},
    "Is the fracture displaced?": {
        "Yes": "Minimally displaced|displaced fracture|displaced",
        "No": "The fracture is nondisplaced.|Undisplaced|undisplaced fracture",
    },
    "Is the fracture severely displaced?": {None: "Minimally displaced"},
    "Is there a fracture?": {
        "Yes": "There's a fracture.|Fracture seen|Fracture identified.|The radius is fractured.",
        "No": "Nah|Not fractured.|Fracture not seen.|It is not fractured.|None seen",
    },
    "Is the liver enlarged?": {
        "Yes": "hepatomegaly|There is hepatomegaly.|Mildly enlarged.",
        "No": "No hepatomegaly",
        None: "There is splenomegaly.",
    },
    "Does the image contain the fetal heart?": {
        "Yes": "The image contains the fetal heart.|The fetal heart can be seen.",
        "No": "The fetal heart is not visible.|The heart isn't shown.",
        None: "It shows the fetal head.",
    },
    "Are the lungs clear?": {"Yes": "clear", "No": "They are not.", None: "The left lung is clear."},
    "Is the gallbladder visible?": {
        "Yes": "It is visible.|visible",
        "No": "It isn't visible.|Not visualized|invisible",
        None: "gallbladder",
    },
    "Is this image of diagnostic quality?": {None: "quality"},
    "Is the nodule larger than 1 cm?": {
        "Yes": "larger|It is larger than 1 cm",
        "No": "smaller|The nodule is smaller than 1 cm.|It is not larger than 1 cm",
        None: "1 cm|larger than 0.5 cm",
    },
    "Is the endotracheal tube in the correct position?": {None: "There is no endotracheal tube.|The tube is seen."},
    "Is there free fluid in the left pleural space?": {
        "Yes": "Free fluid is present.|There is free fluid.",
        None: "There is free fluid in the pelvis.|There is free fluid on the right.",
    },
    "Do the findings suggest COPD?": {"Yes": "The findings suggest COPD.|They do."},
    "Is the spleen absent?": {None: "present|The spleen is present."},
    "Is the mass malignant?": {"No": "The mass is benign.|benign", "Yes": "malignant", None: "It could be malignant"},
}


def cases() -> Iterator[tuple[str, tuple[str, ...], str, str | None]]:
    """Yields each question with its options, a reply, and what a careful human reads."""
    for options, by_reading in READ.items():
        for reading, replies in by_reading.items():
            yield from (("Which is it?", options, reply, reading) for reply in _split(replies))
    for text, by_reading in SAID.items():
        for reading, replies in by_reading.items():
            yield from ((text, ("Yes", "No"), reply, reading) for reply in _split(replies))


def _split(replies: str) -> list[str]:
    return replies.replace("<|", "<\0").replace("|>", "\0>").replace("\0", "¦").split("|")


@pytest.mark.parametrize(("text", "options", "reply", "reading"), cases())
def test_more_replies_are_read_as_a_careful_human_reads_them(
    text: str, options: tuple[str, ...], reply: str, reading: str | None
) -> None:
    assert parse_closed(reply.replace("¦", "|"), asked(text, options)) == reading
