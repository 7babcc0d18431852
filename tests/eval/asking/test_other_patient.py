from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from medtune.data.media.load import BLANKS, blank_group, shuffled_group
from medtune.eval.asking.plan import other_groups
from tests.eval.answerers import groups


@given(st.integers(2, 12), st.integers(0, 99))
def test_everyone_sees_another_patient_and_the_same_kind_of_image(num_patients: int, seed: int) -> None:
    found = groups(num_patients)
    for group, other in zip(found, other_groups(found, seed=seed), strict=True):
        assert other is not None
        assert other.patient_id != group.patient_id
        assert other.questions[0].facets["task"] == group.questions[0].facets["task"]


def test_each_patient_is_looked_at_once() -> None:
    found = groups(9, tasks=["diagnosis"])
    chosen = [other.patient_id for other in other_groups(found, seed=1) if other]
    assert sorted(chosen) == sorted({group.patient_id for group in found})


def test_the_choice_repeats_with_its_seed() -> None:
    found = groups(9)
    assert other_groups(found, seed=1) == other_groups(found, seed=1)
    assert other_groups(found, seed=1) != other_groups(found, seed=2)


def test_one_patient_alone_has_no_other() -> None:
    assert other_groups(groups(1), seed=0) == [None, None]


def test_a_kind_that_nobody_else_has_gets_any_image_of_another_patient() -> None:
    found = [*groups(3, tasks=["diagnosis"]), *groups(1, tasks=["red_box_grounding"])]
    other = other_groups(found, seed=0)[-1]
    assert other is not None
    assert other.patient_id != found[-1].patient_id


def test_of_a_scan_the_same_organ_is_shown_whatever_is_asked_about_it() -> None:
    found = []
    for patient, whole in enumerate(groups(8, tasks=["recognition"])):
        for organ in ("liver", "pancreas"):
            # Questions about the kind of a lesion exist only for ill organs. The choice must not depend on them.
            tasks = ["recognition", "visual reasoning"][: 1 + (patient % 2)]
            asked = tuple(replace(whole.questions[0], facets={"task": task}) for task in tasks)
            media = (replace(whole.media[0], kind="volume", target=(organ,)),)
            found.append(replace(whole, media=media, questions=asked))
    others = other_groups(found, seed=3)
    assert all(
        other and other.media[0].target == group.media[0].target for group, other in zip(found, others, strict=True)
    )
    assert {len(other.questions) for other in others[2::4] if other} == {1, 2}


def test_as_many_items_of_the_same_kinds_are_shown_and_none_where_nobody_has_them() -> None:
    found = []
    for patient, whole in enumerate(groups(6, tasks=["diagnosis"])):
        (ref,) = whole.media
        clip = replace(ref, kind="video")
        shown = ((), (ref,), (ref, ref), (ref, clip), (clip, ref)[: 2 if patient < 2 else 1])
        found += [replace(whole, media=media) for media in shown]
    found.append(replace(found[0], media=(found[1].media[0],) * 3))
    others = other_groups(found, seed=3)
    for group, other in zip(found, others, strict=True):
        if len(group.media) in (0, 3):
            assert other is None
        else:
            assert other is not None
            assert other.patient_id != group.patient_id
            assert [ref.kind for ref in other.media] == [ref.kind for ref in group.media]


def test_blank_and_shuffled_media_keep_the_number_and_kinds_of_items() -> None:
    whole = groups(1)[0]
    (ref,) = whole.media
    clip = replace(ref, kind="video")
    mixed = replace(whole, media=(ref, clip, ref))
    blank, shuffled = blank_group(mixed), shuffled_group(mixed, seed=0)
    assert blank is not None
    assert blank.media == (BLANKS["image"], BLANKS["video"], BLANKS["image"])
    assert shuffled is not None
    assert [each.shuffled_by is None for each in shuffled.media] == [True, False, True]
    assert blank_group(replace(whole, media=())) is None
    assert shuffled_group(replace(whole, media=(ref, ref)), seed=0) is None
