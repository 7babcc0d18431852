"""Tells in which language questions are asked, and holds what medtune adds to a question in that language.

Source: the words are our own; they are everyday words of each language.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from medtune.data.kept_rows import Digests

ENGLISH = "en"
_OWN_SHARE = 0.2
"""The share of the questions that must be in a language for a question to be asked in it, beside the commonest one."""
_KEPT_TEXTS = 10_000
_CJK, _KANA = re.compile(r"[\u3400-\u9fff]"), re.compile(r"[\u3040-\u30ff]")
_WORD = re.compile(r"[^\W\d_]+")

_Said = tuple[str, str, str, str, str, str, str, str]


@dataclass(frozen=True, slots=True)
class Language:
    """What medtune says in a language, and by which words it knows it."""

    name: str  # The language's English name.
    option: str  # Asks for one of the options.
    letter: str  # Asks for the letter of an option.
    option_letter: str  # Asks for an option and then its letter.
    answer: str  # What stands before the letter in an answer of both.
    number: str  # Asks for a number.
    number_in: str  # Asks for a number in a unit, which stands in place of {unit}.
    labels: str  # Asks for all labels that are there, or for `nothing`.
    nothing: str  # The answer where no label is there.
    yes_no: tuple[str, str]  # What TRUE and FALSE of a table become.
    words: frozenset[str]  # Frequent words of questions; without any, the script tells the language.
    # The names of columns by their role in a table of own questions, beside the English ones; "label" is an answer
    # without a question, "letters" are the words before A, B and on.
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)


def _language(name: str, said: _Said, yes_no: str, words: str = "", columns: str = "") -> Language:
    yes, no = yes_no.split()
    by_role = (part.split() for part in columns.split(";") if part.strip())
    return Language(name, *said, (yes, no), frozenset(words.split()), {role: tuple(names) for role, *names in by_role})


LANGUAGES: Mapping[str, Language] = {
    ENGLISH: _language(
        "English",
        (
            *("Answer with one option.", "Answer with its letter.", "Answer with one option, then its letter."),
            *("Answer", "Answer with a number.", "Answer with a number in {unit}."),
            *("Answer with all that apply, separated by semicolons, or with none.", "none"),
        ),
        "yes no",
        "is are the what which of this there does do where how many much on an and shown seen",
    ),
    "de": _language(
        "German",
        (
            *("Antworte mit einer der Optionen.", "Antworte mit dem Buchstaben."),
            *("Antworte mit einer der Optionen und dann mit ihrem Buchstaben.", "Antwort"),
            *("Antworte mit einer Zahl.", "Antworte mit einer Zahl in {unit}."),
            *("Antworte mit allem, was zutrifft, durch Semikolons getrennt, oder mit: nichts.", "nichts"),
        ),
        "ja nein",
        "ist sind das der die dem den des ein eine einen im zu welche welcher welches wo wie gibt es auf liegt sehen",
        "image bild bilder bilddatei datei dateiname; question frage; answer antwort;"
        " label etikett klasse; options optionen auswahl; patient patienten_id; split aufteilung; unit einheit;"
        " letters möglichkeit antwort antwortmöglichkeit auswahl",
    ),
    "fr": _language(
        "French",
        (
            *("Répondez par une des options.", "Répondez par la lettre."),
            *("Répondez par une des options, puis par sa lettre.", "Réponse"),
            *("Répondez par un nombre.", "Répondez par un nombre en {unit}."),
            *("Répondez par tout ce qui est présent, séparé par des points-virgules, ou par : aucun.", "aucun"),
        ),
        "oui non",
        "est sont le la les un une des du dans où quel quelle quels quelles combien cette ce il a ou voit",
        "image fichier nom_fichier chemin_image; video vidéo; answer réponse; label étiquette classe; options choix;"
        " patient id_patient patiente; unit unité;"
        " letters choix réponse proposition",
    ),
    "es": _language(
        "Spanish",
        (
            *("Responda con una de las opciones.", "Responda con la letra."),
            *("Responda con una de las opciones y luego con su letra.", "Respuesta"),
            *("Responda con un número.", "Responda con un número en {unit}."),
            *("Responda con todo lo que esté presente, separado por punto y coma, o con: ninguno.", "ninguno"),
        ),
        "sí no",
        "es el la los las un una del en hay qué cuál cuáles cuánto cuántos dónde esta este se ve está",
        "image imagen imágenes archivo fichero; video vídeo; question pregunta; answer respuesta; label etiqueta clase;"
        " options opciones; patient paciente id_paciente paciente_id; split partición; unit unidad;"
        " letters opción respuesta alternativa",
    ),
    "it": _language(
        "Italian",
        (
            *("Rispondi con una delle opzioni.", "Rispondi con la lettera."),
            *("Rispondi con una delle opzioni e poi con la sua lettera.", "Risposta"),
            *("Rispondi con un numero.", "Rispondi con un numero in {unit}."),
            *("Rispondi con tutto ciò che è presente, separato da punto e virgola, o con: nessuno.", "nessuno"),
        ),
        "sì no",
        "è il lo la gli i un una del della nel nella che quale quali quanto dove questa questo di si vede sono",
        "image immagine immagini; question domanda; answer risposta; label etichetta classe; options opzioni;"
        " patient paziente id_paziente paziente_id; split suddivisione; unit unità;"
        " letters opzione risposta alternativa scelta",
    ),
    "pt": _language(
        "Portuguese",
        (
            *("Responda com uma das opções.", "Responda com a letra."),
            *("Responda com uma das opções e depois com a sua letra.", "Resposta"),
            *("Responda com um número.", "Responda com um número em {unit}."),
            *("Responda com tudo o que estiver presente, separado por ponto e vírgula, ou com: nenhum.", "nenhum"),
        ),
        "sim não",
        "é o a os as um uma do da no na há qual quais quanto quantos onde esta este que são em se vê",
        "image imagem imagens arquivo ficheiro; video vídeo; question pergunta; answer resposta; label rótulo classe;"
        " options opções; patient paciente id_paciente paciente_id; split partição; unit unidade;"
        " letters opção resposta alternativa",
    ),
    "nl": _language(
        "Dutch",
        (
            *("Antwoord met een van de opties.", "Antwoord met de letter."),
            *("Antwoord met een van de opties en daarna met de letter.", "Antwoord"),
            *("Antwoord met een getal.", "Antwoord met een getal in {unit}."),
            *("Antwoord met alles wat aanwezig is, gescheiden door puntkomma's, of met: geen.", "geen"),
        ),
        "ja nee",
        "is zijn de het een van welke welk wat waar hoe er deze dit in op te zien hoeveel",
        "image afbeelding afbeeldingen bestand bestandsnaam; question vraag; answer antwoord; label klasse;"
        " options opties; patient patiënt patiënt_id patientnummer; split verdeling; unit eenheid;"
        " letters optie antwoord keuze",
    ),
    "zh": _language(
        "Chinese",
        (
            *("请回答其中一个选项。", "请回答选项的字母。", "请先回答其中一个选项，再回答它的字母。", "答案"),
            *("请回答一个数字。", "请回答一个数字，单位为{unit}。"),
            *("请回答所有符合的选项，用分号分隔；如果没有，请回答：无。", "无"),
        ),
        "是 否",
        columns="image 图像 图片 影像; video 视频; question 问题; answer 答案; label 标签 类别; options 选项;"
        " patient 患者 患者编号 病人 病人编号; unit 单位;"
        " letters 选项",
    ),
    "ja": _language(
        "Japanese",
        (
            *("選択肢の一つで答えてください。", "選択肢の文字で答えてください。"),
            *("選択肢の一つを答え、次にその文字を答えてください。", "答え"),
            *("数字で答えてください。", "{unit}単位の数字で答えてください。"),
            *("当てはまるものをすべてセミコロンで区切って答えてください。なければ「なし」と答えてください。", "なし"),
        ),
        "はい いいえ",
        columns="image 画像 画像ファイル; video 動画; question 質問; answer 回答 解答; label ラベル; options 選択肢;"
        " patient 患者 患者番号 患者id; unit 単位;"
        " letters 選択肢",
    ),
}


def column_names(role: str) -> frozenset[str]:
    """Returns how the columns of a role are called in other languages than English, in small letters."""
    return frozenset(name for said in LANGUAGES.values() for name in said.columns.get(role, ()))


def told_language(text: str) -> str | None:
    """Returns the code of the language of a text; None where its words speak for none, or for two alike.

    Example:
        >>> [told_language(text) for text in ("Ist ein Knoten zu sehen?", "这是什么?", "これは何ですか", "CT?")]
        ['de', 'zh', 'ja', None]
    """
    if _KANA.search(text):
        return "ja"
    if _CJK.search(text):
        return "zh"
    words = _WORD.findall(text.casefold())
    hits = Counter({code: sum(word in one.words for word in words) for code, one in LANGUAGES.items()})
    (best, most), (_, second) = hits.most_common(2)
    return best if most > second else None


def languages_of(texts: Iterable[str], said: str | None = None) -> list[str]:
    """Returns the language of each question: the said one, its own where it is common among all, or the commonest.

    A text alone may be too short to tell, and a single word may be at home in two languages. English is taken where no
    text tells another one.
    """
    if said:
        return [said for _ in texts]
    own, digests = list[str | None](), Digests()
    told = lru_cache(_KEPT_TEXTS)(told_language)
    for text in texts:
        own.append(told(text))
        digests.append(text)
    counts = Counter(code for each in digests.first() if (code := own[each.place]))
    usual = max(counts, key=lambda code: (counts[code], code == ENGLISH, code), default=ENGLISH)
    common = {code for code, count in counts.items() if count >= _OWN_SHARE * counts.total()}
    return [code if code in common and code else usual for code in own]


def said_of_languages(codes: Iterable[str]) -> list[str]:
    """Returns a note for each other language than English in which prompts say how to answer."""
    return [
        f"{count:,} questions are in {LANGUAGES[code].name}: what is added to them is too, as in "
        f"{LANGUAGES[code].option!r}; --language en adds English"
        for code, count in Counter(codes).most_common()
        if code != ENGLISH
    ]
