import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from medtune.data.types import Question
from medtune.eval.scoring.parsers.choice_parsers import parse_choice, parse_choice_strict

CELLS = ("upper left", "center", "center left", "not visible", "lower right")
CLASSES = ("benign", "malignant", "normal")
AROUND = st.text(" \n\"'*_.,:;!()[]`", max_size=4)
WORDS = st.from_regex(r"[a-zA-Z0-9]+( [a-zA-Z0-9]+){0,2}", fullmatch=True)
OPTION_SETS = st.lists(WORDS, min_size=1, max_size=6, unique_by=lambda text: " ".join(text.casefold().split()))


def asked(*options: str) -> Question:
    return Question("q", "m", "Which?", options, options[0], "choice", "p")


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("benign", "benign"),
        ("Benign.", "benign"),
        ("**Malignant**", "malignant"),
        ('"normal"', "normal"),
        ("- benign", "benign"),
        ("benign\n", "benign"),
        ("B", "malignant"),
        ("b", "malignant"),
        ("(A)", "benign"),
        ("A.", "benign"),
        ("**C**", "normal"),
        ("(C) normal", "normal"),
        ("A. benign", "benign"),
        ("A: benign", "benign"),
        ("B) malignant because of the margin", "malignant"),
        ("Answer: B", "malignant"),
        ("**Answer:** B", "malignant"),
        ("Answer: **C**", "normal"),
        ("ANSWER :B", "malignant"),
        ("Answer - B", "malignant"),
        ("Answer: (B)", "malignant"),
        ("The answer is C.", "normal"),
        ("The correct answer is (B) since it is irregular", "malignant"),
        ("The answer is B because it is irregular", "malignant"),
        ("Option C", "normal"),
        ("the answer is benign", "benign"),
        ("The answer is: malignant", "malignant"),
        ("The answer is a benign lesion.", "benign"),
        ("It could be benign or malignant. The answer is malignant.", "malignant"),
        ("This image shows a benign lesion.", "benign"),
        ("benign, definitely benign", "benign"),
        ("The lesion is not round.\nAnswer: A", "benign"),
        ("A. benign. Option B is less likely.", "benign"),
        ("(A) because option B is wrong", "benign"),
        ("<answer>B</answer>", "malignant"),
        (r"\boxed{B}", "malignant"),
        (r"The final answer is $\boxed{\text{B}}$.", "malignant"),
        ('```json\n{"answer": "B", "reason": "option A is wrong"}\n```', "malignant"),
        ("Final Answer: **C**", "normal"),
        ("I first thought of Answer: A.\nFinal answer: B", "malignant"),
        ("The correct option is (C) normal, as nothing is seen.", "normal"),
        ("Answer: B\nExplanation: options A and C are eliminated, as option A would be round.", "malignant"),
        ("B\n\nA. is round\nB. is spiculated\nC. shows no lesion", "malignant"),
        ("A or B? No.\n</think>\n\nC", "normal"),
        ("Ｂ", "malignant"),
        ("Answer：Ｂ", "malignant"),
        ("I would choose B, since its margin is irregular.", "malignant"),
        ("The most likely diagnosis is (B) malignant. Benign (A) lesions are round.", "malignant"),
        ("This image shows a benign lesion. There is no sign of a malignant one.", "benign"),
        ("It is benign rather than malignant.", "benign"),
        ("The echoes are irregular, so B.", "malignant"),
        ("C; not A", "normal"),
        ("B -", "malignant"),
        ("B …", "malignant"),
        ("benign (rather than malignant)", "benign"),
    ],
)
def test_parse_choice_reads(reply: str, wanted: str) -> None:
    assert parse_choice(reply, asked(*CLASSES)) == wanted


@pytest.mark.parametrize(
    "reply",
    [
        "", "   ", "Hm.", "D", "Answer: D", "benign or malignant", "not benign", "It isn't benign", "non-benign",
        "cannot be malignant", "neither", "malignant is excluded", "The answer is not B",
        "The answer is benign or malignant", "Answer: A. Answer: B", "A. malignant", "Answer: B (benign)", "(A) or (B)",
        "A. benign\nB. malignant\nC. normal", "benignity", "abnormal", "A good question", "Because of the margin",
        "Definitely", "I cannot answer", "either A or B", "Answer: A or B", "Answer: A, B", "<answer>A, B</answer>",
        "<answer>A</answer> <answer>B</answer>", "<think>Answer: B", "Option B is wrong.",
        "Is it benign? I cannot tell.", "We cannot say more. Benign lesions are usually round.",
        "Answer: A (malignant)", "The options are A, B and C.",
    ],
)  # fmt: skip
def test_parse_choice_refuses_to_guess(reply: str) -> None:
    assert parse_choice(reply, asked(*CLASSES)) is None


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("center left", "center left"),
        ("In the center left of the image", "center left"),
        ("It is in the center.", "center"),
        ("The lesion is not visible", "not visible"),
        ("Upper  Left corner", "upper left"),
        ("upper", None),
        ("Upper-left", "upper left"),
        ("It is center-left.", "center left"),
        ("not in the center", None),
        ("Not visible, so not in the center", None),
        ("visible", None),
    ],
)
def test_parse_choice_takes_the_longest_option(reply: str, wanted: str | None) -> None:
    assert parse_choice(reply, asked(*CELLS)) == wanted


def test_parse_choice_reads_letters_in_the_order_shown() -> None:
    assert parse_choice("A", asked("normal", "benign")) == "normal"
    assert parse_choice("A", asked("benign", "normal")) == "benign"


def test_parse_choice_takes_an_options_own_words_before_letters() -> None:
    assert parse_choice("B", asked("B", "A")) == "B"


def test_parse_choice_of_options_that_differ_in_case_alone_wants_them_to_the_letter() -> None:
    assert parse_choice("T1", asked("T1", "t1")) == "T1"
    assert parse_choice("t1.", asked("T1", "t1")) is None
    assert parse_choice("It is T1 here", asked("T1", "t1")) is None


def test_parse_choice_does_not_read_a_number_inside_another() -> None:
    assert parse_choice("It is 1.5 cm", asked("1", "2")) is None
    assert parse_choice("It is 21,1 cm", asked("1", "2")) is None
    assert parse_choice("It is 1.", asked("1", "2")) == "1"


def test_parse_choice_without_options_reads_nothing() -> None:
    assert parse_choice("A", Question("q", "m", "Describe it.", (), "a mass", "text", "p")) is None


@pytest.mark.parametrize(
    ("reply", "wanted"),
    [
        ("benign", "benign"),
        ("B", "malignant"),
        ("Benign", None),
        ("benign.", None),
        (" B", None),
        ("b", None),
        ("", None),
    ],
)
def test_parse_choice_strict_wants_equality(reply: str, wanted: str | None) -> None:
    assert parse_choice_strict(reply, asked(*CLASSES)) == wanted


@given(st.text(), st.lists(st.text(), min_size=1, max_size=6))
def test_parsers_return_an_option_or_none_whatever_comes(reply: str, options: list[str]) -> None:
    for parser in (parse_choice, parse_choice_strict):
        assert parser(reply, asked(*options)) in {*options, None}


@given(
    st.lists(
        st.sampled_from(
            ["Answer", ":", " is ", "A", "(B)", "C.", "\n", "not ", "center", "center left", "option ", "**"]
        ),
        max_size=12,
    )
)
def test_parse_choice_returns_an_option_or_none_on_likely_pieces(pieces: list[str]) -> None:
    assert parse_choice("".join(pieces), asked(*CELLS)) in {*CELLS, None}


@given(OPTION_SETS, AROUND, AROUND, st.sampled_from([str, str.upper, str.lower, str.title]), st.data())
def test_every_option_parses_to_itself(
    options: list[str], before: str, after: str, case: object, data: st.DataObject
) -> None:
    option = data.draw(st.sampled_from(options))
    assert callable(case)
    assert parse_choice(f"{before}{case(option)}{after}", asked(*options)) == option


@given(OPTION_SETS, AROUND, AROUND, st.data())
def test_every_letter_parses_to_its_option(options: list[str], before: str, after: str, data: st.DataObject) -> None:
    assume(all(len(option) > 1 for option in options))
    place = data.draw(st.integers(0, len(options) - 1))
    assert parse_choice(f"{before}{'ABCDEF'[place]}{after}", asked(*options)) == options[place]


@pytest.mark.parametrize(
    ("options", "reply", "meant"),
    [
        (("cysts", "E. coli", "E. coli and yeast"), "The answer is E. coli and yeast.", "E. coli and yeast"),
        (("x,y", "A,B", "B,C"), "Because of the sign, the answer is A,B.", "A,B"),
        (("b,x", "b,d", "b,b"), "Answer: b,d", "b,d"),
        (("B lines", "A lines", "none"), "The answer is B lines.", "B lines"),
        (("x,y", "A,B", "B,C"), "The answer is A,B or B,C.", None),
        (("clear", "may be cloudy", "has a rim"), "The answer is (B) may be cloudy.", "may be cloudy"),
        (("clear", "may be cloudy", "has a rim"), "The answer is (A) may be cloudy.", None),
        (("clear", "may be cloudy", "has a rim"), "The answer is not (B) may be cloudy.", None),
        (("clear", "cloudy", "has a rim"), "The answer A may be wrong.", None),
    ],
)
def test_a_statement_whose_words_look_like_letters_or_doubt_is_read_by_the_words(
    options: tuple[str, ...], reply: str, meant: str | None
) -> None:
    assert parse_choice(reply, Question("q", "m", "Which?", options, options[0], "choice", "p")) == meant
