"""Tests in which language prompts say how to answer, from the questions of a table to the reading of its answers."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from medtune.benchmarks.vqa import parse, render
from medtune.data.languages import LANGUAGES, languages_of, told_language
from medtune.data.raw.source import TableOptions
from medtune.data.types import AnswerFormat, Question
from tests.benchmarks.vqa.own_data import read_text

QUESTIONS = {
    "en": "Is a nodule seen in the left lung?|Which organ is shown?|How wide is the duct?|Where does the line end?",
    "de": "Ist ein Rundherd zu sehen?|Welches Organ wird gezeigt?|Wie breit ist der Gang?|Wo liegt die Spitze?",
    "fr": "Voit-on un nodule dans le poumon ?|Quel organe est montré ?|Quelle est la largeur du canal ?|Où est-il ?",
    "es": "¿Se ve un nódulo en él?|¿Qué órgano se muestra?|¿Cuál es el ancho del conducto?|¿Dónde está la punta?",
    "it": "Si vede un nodulo nel polmone?|Quale organo è mostrato?|Quanto è largo il dotto?|Dove si trova la punta?",
    "pt": "Há um nódulo no pulmão esquerdo?|Qual órgão é mostrado?|Qual é a largura do ducto?|Onde está a ponta?",
    "nl": "Is er een nodus te zien?|Welk orgaan is te zien?|Hoe breed is de gang?|Waar ligt de punt van de katheter?",
    "zh": "左肺有结节吗？|图中是哪个器官？|导管有多宽？|导管末端在哪里？",
    "ja": "左肺に結節がありますか。|どの臓器が写っていますか。|管の幅はどれくらいですか。|先端はどこですか。",
}
COLUMNS = {
    "de": "Bild,Frage,Antwort,Optionen,Patienten-ID,Einheit",
    "fr": "Image,Question,Réponse,Choix,Patient,Unité",
    "es": "Imagen,Pregunta,Respuesta,Opciones,Paciente,Unidad",
    "it": "Immagine,Domanda,Risposta,Opzioni,Paziente,Unità",
    "pt": "Imagem,Pergunta,Resposta,Opções,Paciente,Unidade",
    "nl": "Afbeelding,Vraag,Antwoord,Opties,Patiënt,Eenheid",
    "zh": "图像,问题,答案,选项,患者,单位",
    "ja": "画像,質問,回答,選択肢,患者,単位",
}


@pytest.mark.parametrize("code", QUESTIONS)
def test_a_language_is_told_by_its_own_questions(code: str) -> None:
    texts = QUESTIONS[code].split("|")
    told = [told_language(text) for text in texts]
    assert {*told} <= {code, None}
    assert told.count(code) >= 3
    assert languages_of([*texts, "MRT?"]) == [code] * 5


def test_two_common_languages_keep_their_own_words_and_a_rare_one_takes_those_of_the_others() -> None:
    english, chinese = QUESTIONS["en"].split("|"), QUESTIONS["zh"].split("|")
    assert languages_of([*english, *chinese, "T1?"]) == ["en"] * 4 + ["zh"] * 4 + ["en"]
    assert (
        languages_of([*english, *(f"{text} {place}" for place in range(5) for text in english), chinese[0]])[-1] == "en"
    )
    assert languages_of(["T1?", "CT?"]) == ["en", "en"]


@pytest.mark.parametrize("code", COLUMNS)
def test_columns_and_prompts_follow_the_questions_and_answers_are_read_back(tmp_path: Path, code: str) -> None:
    seen, organ, wide, where = QUESTIONS[code].split("|")
    rows = [
        *(f"us_{n}.png,{seen},{answer},,P{n}," for n, answer in enumerate(("TRUE", "FALSE", "TRUE"))),
        f'us_3.png,{organ},b,"alpha|beta",P3,',
        f"us_4.png,{wide},4.5,,P4,mm",
        f"us_5.png,{where},rechts oben,,P5,",
    ]
    table = read_text(tmp_path, "\n".join([COLUMNS[code], *rows]))
    assert not table.rejects
    assert {question.language for question in table.questions} == {code}
    assert any(LANGUAGES[code].name in note and "--language en" in note for note in table.notes)
    polar, _, _, choice, number, free = table.questions
    assert (polar.options, polar.answer) == (LANGUAGES[code].yes_no, LANGUAGES[code].yes_no[0])
    said = LANGUAGES[code]
    assert render(number, "text").text == f"{wide}\n{said.number_in.format(unit='mm')}"
    assert render(free, "text").text == where
    lines: Mapping[AnswerFormat, str] = {"text": said.option, "letter": said.letter, "text_letter": said.option_letter}
    for answer_format, line in lines.items():
        for question in (polar, choice):
            prompt = render(question, answer_format)
            assert prompt.text.splitlines()[0] == question.text
            assert prompt.text.splitlines()[-1] == line
            assert parse(prompt.target, question) == question.answer


@pytest.mark.parametrize("code", LANGUAGES)
def test_a_stated_answer_is_read_in_each_language(code: str) -> None:
    asked = Question("q", "m", "?", ("heart", "lung", "spleen"), "lung", "choice", "p", language=code)
    assert parse(f"{LANGUAGES[code].answer}: B", asked) == "lung"
    assert parse(f"{LANGUAGES[code].answer}: 12.5", Question("q", "m", "?", (), "12.5", "number", "p")) == "12.5"


def test_one_english_wording_is_an_option_and_says_nothing(tmp_path: Path) -> None:
    text = "\n".join(
        [COLUMNS["de"], "us_0.png,Ist ein Herd zu sehen?,TRUE,,P0,", "us_1.png,Ist ein Herd zu sehen?,FALSE,,P1,"]
    )
    table = read_text(tmp_path, text, TableOptions(language="en"))
    assert {question.options for question in table.questions} == {("yes", "no")}
    assert not any("--language" in note for note in table.notes)


def test_english_questions_are_asked_as_before(tmp_path: Path) -> None:
    table = read_text(tmp_path, "image,question,answer\nus_0.png,Is it so?,yes\nus_1.png,Is it so?,no")
    assert {question.language for question in table.questions} == {"en"}
    assert not any("--language" in note for note in table.notes)
