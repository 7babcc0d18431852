"""The words by which replies in many languages name their answer, and by which they deny."""

import re

ANSWER_WORD = (
    r"(?:\b(?:answer|antwort|lösung|réponse|reponse|respuesta|solución|risposta|resposta|antwoord|oplossing|svar|"
    r"vastaus|vastus|odpowiedź|odpověď|odpoveď|răspuns(?:ul)?|válasz|cevap|yanıt|jawaban|jawapan|đáp án|trả lời|"
    r"ответ|відповідь|отговор|одговор|απάντηση)\b"
    r"(?:\s+(?:correct[ae]?|corretta|finale?)\b)?|\bbon choix\b|"
    r"答案|回答|解答|答え|正解|정답은?|답변은?|답(?:은|(?=[\s:]))|"
    r"उत्तर|คำตอบ|الإجابة|الجواب|پاسخ|תשובה)"
)
MARK_NAMES = (
    r"(?:(?:final|correct|predicted|chosen|selected|best|my)[_ -]?)?(?:answer|ans|option|choice|letter|prediction|pred|"
    r"selection|selected|result|output|response|label|final|antwort|réponse|reponse|respuesta|risposta|resposta|antwoord|ответ|"
    r"答案)(?:[_ -]?(?:letter|choice|option|value))?"
)
"""The names of tags whose content is an answer."""
NEGATION = re.compile(
    r"\b(?:not|no|non|never|neither|nor|none|without|cannot|unlikely|rather than|instead of|except|exclude[sd]?|"
    r"ruled out|rules out|ruling out|excluding|absent|wrong|incorrect|less likely|least likely|implausible|"
    r"nicht|kein\w*|weder|aucun\w*|ningun\w*|n['’]\w+ pas|pas (?:un|de)|"
    r"against|improbable|nothing|missing|lacking|mauvais\w*|verkehrt\w*|erróne[oa]|equivocad[oa]|"
    r"falsch|ausgeschlossen|faux|fausse|fals[oa]|errad[oa]|sbagliat[oa]|incorrect[oa]|descartad[oa]|onjuist|fout|"
    r"felaktig\w*|yanlış|nieprawidłow\w*|błędn\w*|неверн\w*|неправильн\w*|не)\b|"
    r"n['’]t\b|pas d['’]|不|没|未|非|无|错|誤",
    re.I,
)
OTHER_SCALE = re.compile(r"\b(?:grade|type|stage|vitamin|hepatitis|category|group|level|figure|panel|image)\s*\Z", re.I)
"""Words behind which a letter is no option's."""
