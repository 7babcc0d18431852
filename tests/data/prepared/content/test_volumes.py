"""Tests that one scan is recognised in every format and form, within one preparation and across two."""

from pathlib import Path

import av
import numpy as np
import pytest
from scipy.ndimage import zoom

from medtune.data.media.videos.read import read_video
from medtune.data.media.volumes.formats.nifti import read_nifti, write_nifti
from medtune.data.media.volumes.read import read_volume
from medtune.data.prepared.decoded_content import Content, decoded_content
from medtune.data.prepared.lookalikes import lookalike_groups
from medtune.data.prepared.read import shared_content, shown_media
from medtune.data.types import SPLITS, MediaRef, Split, Volume
from tests.data.media.videos.synthetic_videos import mp4
from tests.data.prepared.content.scans import LPS, body, prepared, write_bodies, write_forms

HELD_OUT: tuple[Split, ...] = ("val", "test")


def content(path: Path) -> Content:
    found = decoded_content("volume", path)
    assert found is not None
    return found


def alike(*found: Content) -> bool:
    return lookalike_groups({str(n): each.pictures for n, each in enumerate(found)}).num_groups == 1


def test_a_scan_has_one_digest_in_every_form(tmp_path: Path) -> None:
    forms = write_forms(tmp_path, body(0))
    assert len({content(path) for path in forms.values()}) == 1
    assert len({path.read_bytes() for path in forms.values() if path.is_file()}) == len(forms) - 1


def test_other_voxels_and_other_directions_are_other_scans(tmp_path: Path) -> None:
    hu = body(0)
    other = hu.copy()
    other[3, 4, 5] += 1
    paths = [tmp_path / f"{n}.nii" for n in range(3)]
    for path, values, affine in zip(paths, (hu, other, hu), (LPS, LPS, LPS @ np.diag([-1, 1, 1, 1])), strict=True):
        write_nifti(path, values, affine)
    one, changed, mirrored = map(content, paths)
    assert len({one.digest, changed.digest, mirrored.digest}) == 3
    assert alike(one, changed)
    assert not alike(one, mirrored)


def test_the_pictures_survive_other_grids_windows_and_noise_and_tell_bodies_apart(tmp_path: Path) -> None:
    rng, hu = np.random.default_rng(0), body(0)
    changed = {
        "finer": zoom(hu, 1.6, order=1),
        "thick slices": zoom(hu, (1, 1, 0.6), order=1),
        "window": np.clip(hu, -160, 240),
        "noise": (hu + rng.normal(0, 10, hu.shape)).astype(np.float32),
    }
    write_nifti(tmp_path / "scan.nii", hu, LPS)
    one = content(tmp_path / "scan.nii")
    for name, values in changed.items():
        write_nifti(tmp_path / "changed.nii", values, LPS)
        other = content(tmp_path / "changed.nii")
        assert other.digest != one.digest, name
        assert alike(one, other), name
    others = [content(path) for path in write_bodies(tmp_path, range(1, 20))]
    found = lookalike_groups({str(n): each.pictures for n, each in enumerate((one, *others))})
    assert found.num_pairs == 0


def test_a_flat_volume_has_a_digest_and_no_pictures(tmp_path: Path) -> None:
    write_nifti(tmp_path / "flat.nii", np.zeros((8, 8, 8), np.int16), LPS)
    assert content(tmp_path / "flat.nii").pictures == ()


@pytest.mark.parametrize("form", ["scan.nii.gz", "scaled.nii.gz", "turned.nii", "series"])
def test_one_scan_in_train_and_test_of_one_source_is_refused(tmp_path: Path, form: str) -> None:
    forms = write_forms(tmp_path / "forms", body(0))
    paths = [forms["scan.nii"], forms[form], *write_bodies(tmp_path / "others", range(1, 3))]
    with pytest.raises(ValueError, match="1 image is in two splits") as told:
        prepared(paths, ("train", "test", "val", "train"), tmp_path / "out")
    assert "SECRET" not in str(told.value)
    made = prepared(paths, (None,) * 4, tmp_path / "drawn")
    assert made.manifest.identical_media == 1
    split_of = {made.contents[g.media[0].path.name]: s for s in SPLITS for g in made.groups(s)}
    assert len(split_of) == 3


def test_a_resampled_scan_stays_in_the_split_of_the_scan(tmp_path: Path) -> None:
    hu = body(0)
    write_nifti(tmp_path / "resampled.nii", zoom(hu, 1.5, order=1), LPS)
    paths = [*write_bodies(tmp_path / "others", range(8)), tmp_path / "resampled.nii"]
    made = prepared(paths, (None,) * 9, tmp_path / "out")
    found = made.manifest.lookalikes
    assert (found.num_images, found.num_others, found.num_groups, found.num_pairs, found.num_across) == (0, 9, 8, 1, 0)
    assert found.lines()[0].startswith("9 videos and volumes form 8 groups")
    brought = prepared(paths, ("train",) * 4 + ("val",) * 2 + ("test",) * 3, tmp_path / "brought")
    assert brought.manifest.lookalikes.num_across == 1
    assert "1 of 1 pairs in two splits by the source's own split" in brought.manifest.lookalikes.lines()


def test_two_folders_share_a_scan_in_another_format(tmp_path: Path) -> None:
    forms = write_forms(tmp_path / "forms", body(0))
    resampled = tmp_path / "resampled.nii"
    write_nifti(resampled, zoom(body(1), 1.5, order=1), LPS)
    splits: tuple[Split, ...] = ("train", "train", "val", "test")
    learnt_paths = [forms["scan.nii"], *write_bodies(tmp_path / "a", (1, 2, 3))]
    learnt = prepared(learnt_paths, splits, tmp_path / "learnt")
    asked_paths = [*write_bodies(tmp_path / "b", (4, 5)), forms["turned.nii"], resampled]
    asked = prepared(asked_paths, splits, tmp_path / "asked")
    shared = shared_content(shown_media(learnt, splits[:1]), shown_media(asked, HELD_OUT))
    assert shared.same == {content(forms["scan.nii.gz"]).digest}
    assert [(pair.image, pair.other) for pair in shared.alike] == [
        (content(resampled).digest, content(learnt_paths[1]).digest)
    ]
    nothing = shared_content(shown_media(learnt, HELD_OUT), shown_media(asked, HELD_OUT))
    assert (nothing.same, nothing.alike) == (frozenset(), ())


def test_a_scan_whose_voxels_are_cut_short_is_rejected_and_leaves_no_file(tmp_path: Path) -> None:
    paths = write_bodies(tmp_path / "scans", range(5))
    paths[4].write_bytes(paths[4].read_bytes()[:-500])
    made = prepared(paths, (None,) * 5, tmp_path / "out")
    assert sum(made.manifest.rejected.values()) == 1
    assert len(list((made.root / "media").iterdir())) == 4


def test_the_real_scan_is_itself_in_every_form(tmp_path: Path, shared_real: Path) -> None:
    path = shared_real / "ct_trunk" / "ct.nii.gz"
    volume = read_nifti(path)
    one = content(path)
    turned = Volume(volume.hu_IJK[::-1, ::-1], volume.spacing_mm, "LPS")
    write_nifti(tmp_path / "turned.nii", turned.hu_IJK, np.diag([-3.0, -3.0, 3.0, 1.0]))
    assert read_volume(tmp_path / "turned.nii").orientation == "LPS" != volume.orientation
    assert content(tmp_path / "turned.nii") == one
    write_nifti(tmp_path / "thick.nii", zoom(volume.hu_IJK, (1, 1, 0.6), order=1), np.diag([3.0, 3.0, 5.0, 1.0]))
    assert alike(one, content(tmp_path / "thick.nii"))
    halves = [tmp_path / "lower.nii", tmp_path / "upper.nii"]
    write_nifti(halves[0], volume.hu_IJK[:, :, :56], np.diag([3.0, 3.0, 3.0, 1.0]))
    write_nifti(halves[1], volume.hu_IJK[:, :, 56:], np.diag([3.0, 3.0, 3.0, 1.0]))
    assert lookalike_groups({str(n): content(p).pictures for n, p in enumerate((path, *halves))}).num_pairs == 0


ECHO, TISSUE = "sonocrop_echo-with-borders_roi.mp4", "sonocrop_simple-soft-tissue_roi.mp4"


def content_of_videos(path: Path) -> Content:
    found = decoded_content("video", path)
    assert found is not None
    return found


def copied_packets(path: Path, out: Path) -> Path:
    """Writes the packets of a video into another container, as they are."""
    with av.open(str(path)) as read, av.open(str(out), "w") as written:
        stream = read.streams.video[0]
        copy = written.add_stream_from_template(stream)
        for packet in read.demux(stream):
            if packet.dts is not None:
                packet.stream = copy
                written.mux(packet)
    return out


def encoded_again(path: Path, out: Path, *, share: float, crf: int) -> Path:
    """Writes the frames of a video at another size and quality."""
    frames_THWC = read_video(MediaRef(path, kind="video")).frames_THWC
    height, width = (round(side * share / 2) * 2 for side in frames_THWC.shape[1:3])
    with av.open(str(out), "w") as written:
        stream = written.add_stream("libx264", rate=25)
        stream.height, stream.width, stream.pix_fmt = height, width, "yuv420p"
        stream.codec_context.options = {"crf": str(crf), "preset": "ultrafast"}
        for frame_HWC in frames_THWC:
            picture = av.VideoFrame.from_ndarray(frame_HWC, format="rgb24").reformat(width, height)
            written.mux(stream.encode(picture))
        written.mux(stream.encode(None))
    return out


def test_a_clip_in_another_container_is_the_same(tmp_path: Path) -> None:
    path = mp4(tmp_path / "clip.mp4", [n / 25 for n in range(40)])
    copy = copied_packets(path, tmp_path / "clip.mkv")
    assert path.read_bytes() != copy.read_bytes()
    assert content_of_videos(path).digest == content_of_videos(copy).digest
    longer = mp4(tmp_path / "longer.mp4", [n / 25 for n in range(41)])
    assert content_of_videos(longer).digest != content_of_videos(path).digest


def test_a_clip_in_two_containers_may_not_be_in_train_and_test(tmp_path: Path) -> None:
    paths = [mp4(tmp_path / f"{n}.mp4", [k / 25 for k in range(n)]) for n in (20, 30, 40)]
    copy = copied_packets(paths[0], tmp_path / "copy.mkv")
    with pytest.raises(ValueError, match="1 image is in two splits"):
        prepared([*paths, copy], ("train", "val", "test", "test"), tmp_path / "out", kind="video")


def test_a_real_clip_encoded_again_looks_alike_and_other_clips_do_not(tmp_path: Path, shared_real: Path) -> None:
    clips = shared_real / "ultrasound_clips"
    one, other = content_of_videos(clips / ECHO), content_of_videos(clips / TISSUE)
    again = content_of_videos(encoded_again(clips / ECHO, tmp_path / "again.mp4", share=0.5, crf=35))
    assert again.digest != one.digest
    looks = {"one": one.pictures, "other": other.pictures, "again": again.pictures}
    assert lookalike_groups(looks).several == {"one": "again", "again": "again"}
