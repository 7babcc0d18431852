from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from medtune.data.media import load
from medtune.data.types import Box, Image, MediaGroup, MediaRef, Question
from medtune.eval.audit import image_cues, probes
from medtune.eval.audit.audited_phase import AuditedPhase
from medtune.eval.audit.findings import Finding, findings_of
from medtune.eval.audit.image_cues import (
    box_places,
    cue_probes,
    grey_histograms,
    most_read,
    split_probes,
    thumbnails_and_greys,
)
from medtune.eval.metric import ParsedReply
from tests.eval.audit.world import World

ORGANS = ("brain", "heart", "liver")
WIDTH, HEIGHT = 60, 40


def group(
    folder: Path, number: int, *, answer: str, box: Box | None = None, grey: int = 90, task: str = "organ"
) -> MediaGroup:
    path = folder / f"{number}.png"
    PIL.Image.fromarray(np.full((HEIGHT, WIDTH, 3), grey, dtype=np.uint8)).save(path)
    question = Question(
        f"q{number}", f"m{number}", "What?", ORGANS, answer, "choice", f"p{number}", facets={"task": task}
    )
    return MediaGroup(f"m{number}", (MediaRef(path, boxes=(box,) if box else ()),), (question,))


def boxed(folder: Path, numbers: Sequence[int], answer: Callable[[int, int], str]) -> list[MediaGroup]:
    """Returns images with a box at one of three places, and the answer that follows from number and place."""
    rng = np.random.default_rng(numbers[0])
    found = []
    for number in numbers:
        place = int(rng.integers(3))
        x, y = 5 + 18 * place + int(rng.integers(4)), 5 + int(rng.integers(20))
        found.append(group(folder, number, answer=answer(number, place), box=Box(x, y, x + 9, y + 7)))
    return found


def by_place(number: int, place: int) -> str:
    return ORGANS[place]


def by_chance(number: int, place: int) -> str:
    return ORGANS[int(np.random.default_rng(number).integers(3))]


def found(train: Sequence[MediaGroup], test: Sequence[MediaGroup]) -> dict[str, Finding]:
    findings = findings_of({"train": train, "test": test}, split="test", looks={}, probes=split_probes(train, test))
    return {each.name: each for each in findings}


def test_a_box_whose_place_tells_the_answer_is_found_and_one_that_does_not_is_not(tmp_path: Path) -> None:
    told = found(boxed(tmp_path, range(90), by_place), boxed(tmp_path, range(100, 160), by_place))["red_box"]
    assert (told.value, told.n, round(told.chance or 0, 3)) == (1.0, 60, 0.333)
    assert told.flag == "surely more than 10% above guessing"
    assert "organ 1.00 (guessing 0.33)" in told.note
    assert len(told.items) == 60
    silent = found(boxed(tmp_path, range(90), by_chance), boxed(tmp_path, range(100, 160), by_chance))["red_box"]
    assert silent.value < 0.5
    assert silent.flag is None


def test_a_box_in_the_middle_is_told_from_boxes_around_it(tmp_path: Path) -> None:
    def ring(numbers: Sequence[int]) -> list[MediaGroup]:
        places = [(25, 15), (2, 2), (48, 2), (2, 30), (48, 30)]
        return [
            group(tmp_path, n, answer=ORGANS[0 if n % 2 else 1], box=Box(x, y, x + 9, y + 7))
            for n in numbers
            for x, y in [places[0 if n % 2 else 1 + n // 2 % 4]]
        ]

    assert found(ring(range(80)), ring(range(100, 140)))["red_box"].value == 1.0


def test_places_are_shares_of_the_image_and_of_several_boxes_the_largest(tmp_path: Path) -> None:
    one = group(tmp_path, 0, answer="brain", box=Box(30, 10, 60, 30))
    two = replace(one, media_id="two", media=(replace(one.media[0], boxes=(Box(0, 0, 3, 3), *one.media[0].boxes)),))
    bare = replace(one, media_id="bare", media=(replace(one.media[0], boxes=()),))
    places = box_places([one, two, bare])
    assert list(places) == ["m0", "two"]
    assert places["m0"][:4].tolist() == [0.75, 0.5, 0.5, 0.5]
    assert places["m0"][:-1].tolist() == places["two"][:-1].tolist()
    assert (places["m0"][-1], places["two"][-1]) == (1, 2)


def test_grey_values_alone_tell_bright_from_dark(tmp_path: Path) -> None:
    def lit(numbers: Sequence[int]) -> list[MediaGroup]:
        return [group(tmp_path, n, answer=ORGANS[n % 3], grey=40 + 60 * (n % 3) + n % 7) for n in numbers]

    row = found(lit(range(60)), lit(range(100, 160)))["grey_histogram"]
    assert (row.value, row.n) == (1.0, 60)
    assert row.flag


def test_a_histogram_is_that_of_the_image_without_its_boxes(tmp_path: Path) -> None:
    one = group(tmp_path, 0, answer="brain", box=Box(10, 10, 50, 30), grey=128)
    histogram = grey_histograms([one])["m0"]
    assert histogram.shape == (34,)
    assert histogram[:32].argmax() == 16
    assert histogram[16] == 1.0
    assert histogram[32:].tolist() == pytest.approx([128 / 255, 0.0])


def test_each_grey_value_is_in_the_bin_that_numpy_puts_it_into(tmp_path: Path) -> None:
    greys = np.repeat(np.arange(256), np.arange(256) % 7 + 1).astype(np.uint8)
    PIL.Image.fromarray(greys[None]).save(tmp_path / "greys.png")
    histogram = grey_histograms([MediaGroup("m0", (MediaRef(tmp_path / "greys.png"),), ())])["m0"]
    counts, _ = np.histogram(greys / 255, bins=32, range=(0, 1))
    assert histogram[:32].tolist() == (counts / greys.size).astype(np.float32).tolist()


def test_what_is_read_once_for_thumbnails_and_histograms_is_as_if_read_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = [group(tmp_path, number, answer="brain", grey=60 * number) for number in range(3)]
    groups.append(group(tmp_path, 3, answer="brain", box=Box(10, 10, 50, 30), grey=128))
    wanted = probes.thumbnails(groups), grey_histograms(groups)
    read: list[Path] = []

    def counted(media: Sequence[MediaRef]) -> Image:
        read.extend(ref.path for ref in media)
        return load.preview(media)

    monkeypatch.setattr(image_cues, "preview", counted)
    for found, each in zip(thumbnails_and_greys(groups), wanted, strict=True):
        assert found.keys() == each.keys()
        assert all(np.array_equal(found[name], each[name]) for name in each)
    assert sorted(read) == sorted(ref.path for each in groups for ref in each.media)


def test_questions_without_a_box_are_not_asked_and_the_model_is_compared_on_the_others(tmp_path: Path) -> None:
    train = boxed(tmp_path, range(60), by_place)
    test = boxed(tmp_path, range(100, 120), by_place)
    test += [group(tmp_path, number, answer="liver", task="plane") for number in range(200, 220)]
    asked = [question for each in test for question in each.questions]
    known = tuple(question for each in train for question in each.questions)
    probe = next(each for each in cue_probes(known, train, asked, test) if each.name == "red_box")
    assert probe.asked == tuple(range(20))
    assert probe.note.endswith("; 20 of 40 questions")
    # A model that is right on the questions without a box alone.
    rows = [ParsedReply(question, None, "liver" if "plane" in question.facets.values() else None) for question in asked]
    row = AuditedPhase("final", "robust", tuple(asked), {"image": {"robust": rows}}, known).probe_row(probe)
    assert (row.value, row.n, row.gap and row.gap.value) == (1.0, 20, -1.0)


def test_no_probe_without_train_questions_or_boxes(tmp_path: Path) -> None:
    test = boxed(tmp_path, range(10), by_place)
    bare = [group(tmp_path, number, answer="liver") for number in range(20, 40)]
    assert split_probes([], test) == []
    assert [probe.name for probe in split_probes(bare, bare)] == ["grey_histogram"]


def test_of_too_many_images_some_are_drawn_and_the_row_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(image_cues, "MAX_IMAGES", 12)
    train, test = boxed(tmp_path, range(40), by_place), boxed(tmp_path, range(100, 140), by_place)
    probes = split_probes(train, test)
    assert [len(probe.answers) for probe in probes] == [12, 12]
    assert all("12 train images" in probe.note and "12 of 40 questions" in probe.note for probe in probes)


def test_fewer_films_and_volumes_are_read_than_images(tmp_path: Path) -> None:
    images = boxed(tmp_path, range(3), by_place)
    scan = replace(images[0], media=(MediaRef(Path("ct.nii.gz"), kind="volume"),))
    assert most_read(images, images=1200) == 1200
    assert most_read([*images, scan], images=1200) == image_cues.MAX_FILMS_AND_VOLUMES
    assert most_read([scan], images=20) == 20


def test_probes_of_the_audit_of_a_run_have_rows(world: World) -> None:
    probes = cue_probes(world.train_questions, world.train, [q for g in world.test for q in g.questions], world.test)
    assert [probe.name for probe in probes] == ["grey_histogram"]
    assert probes[0].asked == tuple(range(120))
