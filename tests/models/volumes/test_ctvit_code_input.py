"""Tests code ids in place of volumes: all sources of the ids of a scan give the same ids and the same answer."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from medtune.data.media.load import BLANKS
from medtune.data.media.masks import TARGETS
from medtune.data.media.volumes.cache import VolumeCache
from medtune.data.media.volumes.formats.abdomen_atlas import find_cases
from medtune.data.media.volumes.formats.nifti import read_nifti_mask
from medtune.data.media.volumes.read import read_volume
from medtune.data.media.volumes.transforms.ct_chat import ENCODE, CTChatTransform
from medtune.data.media.volumes.transforms.organ_crop import CroppedTransform, crop_around
from medtune.data.types import Image, MediaRef, Volume
from medtune.models.assemble import zoo_entry
from medtune.models.contract import Assembled
from medtune.models.media_reader import read_item
from medtune.models.nano import volume as nano_volume
from medtune.models.nano.volume import llama, tokenizer
from medtune.models.sequence.packing import PackedRows, PromptRows, Shown, pack, pad_left
from medtune.models.sequence.tree import grow
from medtune.models.sequence.volumes import RadFM
from medtune.models.towers.ctvit import CTViT, CTViTConfig
from medtune.models.vlm import VisionLanguageModel
from medtune.models.volumes import ctvit_code_input
from medtune.models.volumes.ctvit_code_input import CodesInput, coder_of, recoded
from medtune.models.volumes.volume_parts import VolumeInput
from medtune.models.weights.export import assemble_model, write_exported
from medtune.models.weights.loading_options import CODES, Loading
from medtune.models.zoo.nano_volumes import RADFM_RESAMPLER, m3d_parts
from tests.data.media.volumes.synthetic_volumes import nifti, scan
from tests.models.twins import MODELS, OF_VOLUMES, fresh
from tests.soak import in_suites

TWIN = "nano_ct_chat"
# The volume has a tenth of the voxels of the release's.
FEWER = CTChatTransform(size=(240, 240, 120))
SMALL = CTViTConfig((2, 4, 4), 8, 1, 1, heads=2, head_width=4, mlp_width=5, codes=16)


def twin(seed: int = 0, variant: str = CODES) -> Assembled:
    assembled = zoo_entry(TWIN).assemble(seed, Loading(variant=variant))
    transform = assembled.transform
    if isinstance(transform, CodesInput):
        return replace(assembled, transform=replace(transform, prepare=FEWER, saved_from=FEWER))
    assert isinstance(transform, VolumeInput)
    return replace(assembled, transform=replace(transform, prepare=FEWER))


@pytest.fixture(scope="module")
def assembled() -> Assembled:
    return twin()


@pytest.fixture(scope="module")
def ref(tmp_path_factory: pytest.TempPathFactory) -> MediaRef:
    # Each block has one value, so that patches still differ after the scan is resampled to full size.
    hu_IJK = np.kron(scan((6, 6, 5)), np.ones((4, 4, 3), np.int16))
    affine = np.diag([-8.0, -8.0, 12.0, 1.0])
    return MediaRef(nifti(tmp_path_factory.mktemp("scan") / "ct.nii.gz", hu_IJK, affine), kind="volume")


@pytest.fixture(scope="module")
def encoded(assembled: Assembled, ref: MediaRef) -> MediaRef:
    """Returns the scan with its encoding by the tower, saved in the format of CT-CHAT's release."""
    volume = twin(variant="public").transform
    with torch.no_grad():
        tokens_BthwD = own(assembled).vision(volume.stack([read_item(ref, volume)]))
    np.savez(ref.path.with_name("ct.npz"), arr=tokens_BthwD.numpy())
    return replace(ref, encoding=ref.path.with_name("ct.npz"))


def own(assembled: Assembled) -> VisionLanguageModel:
    assert isinstance(assembled.model, VisionLanguageModel)
    return assembled.model


def codes_input(assembled: Assembled) -> CodesInput:
    assert isinstance(assembled.transform, CodesInput)
    return assembled.transform


def refuse(*_: object) -> None:
    raise AssertionError("made again")


def test_ids_from_volume_encoding_and_cache_are_the_same(
    assembled: Assembled, ref: MediaRef, encoded: MediaRef, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transform = codes_input(assembled)
    ids = transform.read(ref)
    assert (ids.dtype, ids.shape) == (torch.int64, (3, 3, 3))
    assert len(ids.unique()) > 3
    keeping = replace(transform, cache=VolumeCache(tmp_path))
    for seen in (ref, encoded):
        assert torch.equal(transform.read(seen), ids)
        assert torch.equal(keeping.read(seen), ids)
    monkeypatch.setattr(ctvit_code_input, "load_volume", refuse)
    monkeypatch.setattr(ctvit_code_input, "read_encoding", refuse)
    for seen in (ref, encoded):
        kept = read_item(seen, replace(keeping, cache=VolumeCache(tmp_path)))
        assert kept.dtype == torch.int64
        assert torch.equal(kept, ids)
    files = list(tmp_path.iterdir())
    assert len(files) == 2
    assert all(file.stat().st_size < 1000 for file in files)
    with pytest.raises(AssertionError, match="made again"):
        replace(keeping, coder=codes_input(twin(1)).coder).read(ref)


def test_answers_from_codes_and_from_volumes_are_the_same_to_the_bit(
    assembled: Assembled, encoded: MediaRef, ref: MediaRef
) -> None:
    from_volume = twin(variant="public")
    layout = assembled.template.layout("how large is the liver?", "12 cm")
    rows = pack([[Shown(grow([layout], [0]), 0)]], pad_id=assembled.template.pad_id)
    read = []
    with torch.no_grad():
        for each, seen in ((from_volume, ref), (assembled, ref), (assembled, encoded)):
            model = own(each).eval()
            media = each.transform.stack([read_item(seen, each.transform)])
            assert torch.equal(model.features(media), model.vision(media).flatten(1))
            read.append(model(rows, model.encode(media)).logprobs_T)
    assert torch.equal(read[0], read[1])
    assert torch.equal(read[0], read[2])


def test_a_blank_scan_goes_through_the_tower(assembled: Assembled, ref: MediaRef) -> None:
    blank = read_item(BLANKS["volume"], assembled.transform)
    assert not torch.equal(blank, read_item(ref, assembled.transform))
    assert assembled.transform.stack([blank, blank]).shape == (2, 3, 3, 3)


def test_encodings_of_another_tower_are_refused(assembled: Assembled, encoded: MediaRef, tmp_path: Path) -> None:
    other = twin(1)
    with pytest.raises(ValueError, match=r"ct\.npz: arr: a vector is .* away from the nearest code.*another tower"):
        read_item(encoded, other.transform)
    narrow = replace(encoded, encoding=tmp_path / "narrow.npz")
    np.savez(tmp_path / "narrow.npz", arr=np.zeros((1, 2, 2, 2, 8), np.float32))
    with pytest.raises(ValueError, match=r"narrow\.npz: arr: vectors of width 8, the tower's have 16.*another tower"):
        read_item(narrow, assembled.transform)


def test_encodings_saved_in_16_bits_are_recognised() -> None:
    torch.manual_seed(0)
    tower = CTViT(replace(SMALL, width=512, codes=256))
    ids_thw = torch.randint(256, (3, 4, 2))
    for dtype in (torch.float16, torch.bfloat16):
        vectors = tower.decode_ids(ids_thw[None]).to(dtype).float().numpy()
        path = Path("unread.npz")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ctvit_code_input, "read_encoding", lambda _, found=vectors[0]: found)
            assert torch.equal(coder_of(tower).of_encoding(path), ids_thw)


def test_a_cropped_scan_passes_the_encoding_of_the_whole_one_by(assembled: Assembled, ref: MediaRef) -> None:
    missing = replace(ref, encoding=Path("missing.npz"))
    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        read_item(missing, assembled.transform)
    cropping = replace(codes_input(assembled), prepare=CroppedTransform(FEWER, ("liver",)))
    # The scan has no mask of the liver, so all of it is shown.
    with pytest.warns(UserWarning, match="mask is empty"):
        seen = read_item(missing, cropping)
    assert torch.equal(seen, read_item(ref, assembled.transform))


def test_ids_do_not_depend_on_how_the_model_computes() -> None:
    torch.manual_seed(0)
    tower = CTViT(SMALL)
    coder, volume = coder_of(tower), torch.randn(1, 16, 32, 32)
    ids = coder.of_volume(volume)
    tower.to(torch.bfloat16)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(coder.of_volume(volume), ids)
    assert not any(parameter.requires_grad for parameter in coder.tower.parameters())


def test_towers_are_told_apart_by_any_weight() -> None:
    torch.manual_seed(0)
    tower = CTViT(SMALL)
    before = coder_of(tower).digest
    assert coder_of(tower).digest == before
    tower.get_parameter("temporal.layers.0.attention.q_scale").data[0] += 1e-3
    assert coder_of(tower).digest != before
    with pytest.raises(TypeError, match="Linear has no codes"):
        coder_of(torch.nn.Linear(2, 2))


def test_the_input_can_be_sent_to_another_process(assembled: Assembled, encoded: MediaRef) -> None:
    sent = pickle.loads(pickle.dumps(assembled.transform))
    assert torch.equal(sent.read(encoded), codes_input(assembled).read(encoded))


def test_scans_of_two_grids_are_refused_in_one_batch(assembled: Assembled) -> None:
    ids = torch.zeros(2, 3, 4, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"\(2, 3, 4\) codes, another one of \(4, 3, 2\)"):
        assembled.transform.stack([ids, ids.permute(2, 1, 0)])


def test_an_exported_model_codes_by_its_own_tower(assembled: Assembled, tmp_path: Path) -> None:
    write_exported(assembled, tmp_path, name=TWIN, base_weights=None)
    again = assemble_model(TWIN, 1, Loading(weights=str(tmp_path), variant=CODES))
    assert codes_input(again).coder.digest == codes_input(assembled).coder.digest
    plain = twin(variant="public").transform
    assert recoded(plain, own(assembled).vision) is plain


@pytest.mark.parametrize("name", ["nano_ct_chat", "nano_nn_ct_chat"])
def test_the_twins_take_codes_by_name_and_nothing_else(name: str) -> None:
    transform = codes_input(zoo_entry(name).assemble(0, Loading(variant=CODES)))
    assert transform.saved_from == ENCODE
    assert (transform.prepare == ENCODE) == (name == TWIN)
    assert CODES in zoo_entry(name.removeprefix("nano_")).variants
    with pytest.raises(ValueError, match=r"model\.variant: no 'code'"):
        zoo_entry(name).assemble(0, Loading(variant="code"))


TWINS = [name for name in OF_VOLUMES if not MODELS[name].by_organ]
"""Those that look at the whole scan."""
ON_A_REAL_SCAN = ("nano_m3d_phi3",)
"""The simulated scans of the plain suite go through all; CT-CHAT's tower reads a real one for 7 s."""


@pytest.fixture(scope="session")
def real_volume(shared_real: Path) -> Volume:
    return read_volume(shared_real / "ct_trunk" / "ct.nii.gz")


def answered(assembled: Assembled, answer: str, *, with_media: bool = True) -> PackedRows:
    sequence = assembled.template.layout("how large is the liver?", answer, shapes=[None] if with_media else [])
    return pack([[Shown(grow([sequence], [0]), 0 if with_media else None)]], pad_id=assembled.template.pad_id)


def asked(assembled: Assembled) -> PromptRows:
    return pad_left([assembled.template.layout("how large is the liver?", None)], [0], pad_id=assembled.template.pad_id)


def own_model(assembled: Assembled) -> VisionLanguageModel:
    assert isinstance(assembled.model, VisionLanguageModel)
    return assembled.model


def other(volume: Volume) -> Volume:
    """Returns a scan of the same grid in which the liver's half is set to water."""
    hu_IJK = volume.hu_IJK.copy()
    hu_IJK[: hu_IJK.shape[0] // 2] = 0
    return Volume(hu_IJK, volume.spacing_mm, volume.orientation)


@pytest.mark.parametrize("name", in_suites(TWINS, slow=ON_A_REAL_SCAN))
def test_twin_learns_from_and_speaks_about_a_real_scan(name: str, real_volume: Volume) -> None:
    assembled = fresh(name)
    model, transform = own_model(assembled), assembled.transform
    pixels = torch.stack([transform(v) for v in (real_volume, other(real_volume))])
    rows = answered(assembled, "12 cm")
    model.eval()
    with torch.no_grad():
        tokens = model.encode(pixels)
        seen, unlike = (model(rows, tokens[i : i + 1]).logprobs_T for i in (0, 1))
    assert (seen - unlike).abs().max() > 1e-3
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    before = -model(rows, model.encode(pixels[:1])).logprobs_T.mean()
    before.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    optimizer.step()
    after = -model(rows, model.encode(pixels[:1])).logprobs_T.mean()
    assert after < before
    written = model.eval().generate(
        asked(assembled), tokens[:1], max_new_tokens=3, stop_ids=assembled.template.stop_ids
    )
    assert 1 <= len(written[0]) <= 3


@pytest.mark.parametrize("name", TWINS)
def test_twin_answers_without_an_image(name: str) -> None:
    assembled = fresh(name)
    assert assembled.model(answered(assembled, "no", with_media=False), None).logprobs_T.isfinite().all()


def test_the_twin_reads_the_volume_of_the_paper_too() -> None:
    """A recipe of the paper sets the variant, and is tried with the twin's name."""
    assembled = zoo_entry(TWIN).assemble(0, Loading(variant="paper"))
    model = own_model(assembled)
    seen_CDHW = assembled.transform.stack([torch.zeros(1, 600, 300, 300)])
    assert model.features(seen_CDHW).isfinite().all()
    planned = zoo_entry(TWIN).skeleton(Loading(variant="paper")).named_parameters()
    assert {n: p.shape for n, p in planned} == {n: p.shape for n, p in model.named_parameters()}


@pytest.mark.slow
def test_organ_crop_shows_another_volume(shared_real: Path, real_volume: Volume) -> None:
    mask = read_nifti_mask(shared_real / "ct_trunk" / "segmentations" / "liver.nii.gz", real_volume)
    cropped = crop_around(real_volume, mask, name="liver")
    assert cropped.hu_IJK.size < real_volume.hu_IJK.size
    transform = fresh("nano_m3d_llama2").transform
    whole, near = (transform(v) for v in (real_volume, cropped))
    assert whole.shape == near.shape
    assert (whole - near).abs().mean() > 0.01


def test_radfm_takes_an_image_and_a_volume_in_one_batch_and_in_one_sequence() -> None:
    torch.manual_seed(0)
    assembled = fresh("nano_radfm")
    transform, model = assembled.transform, own_model(assembled).eval()
    assert transform.kinds == ("image", "volume")
    pixels = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    image = transform(Image(pixels))
    assert image.shape == (3, 512, 512, 4)
    assert torch.equal(image[..., 0], image[..., 3])
    volume = transform(Volume(np.arange(6 * 5 * 10, dtype=np.int16).reshape(6, 5, 10), (1.0, 1.0, 1.0), "LPS"))
    both = transform.stack([image, volume])
    assert both.shape == (2, 3, 512, 512, 64)
    family = RadFM(nano_volume.tokenizer(), tokens_per_scan=RADFM_RESAMPLER.num_tokens)
    sequence = family.layout_scans("compare these two", "alike", positions=(0, 5))
    rows = pack([[Shown(grow([sequence], [0]), 0)]], pad_id=family.pad_id)
    with torch.no_grad():
        tokens = model.encode(both)
        assert tokens.shape[0] == 2
        seen, swapped = (
            model(rows._replace(media_S=torch.tensor(order)), tokens).logprobs_T for order in ((0, 1), (1, 0))
        )
    assert (seen - swapped).abs().max() > 1e-3


@pytest.fixture(scope="session")
def real_ref(shared_real: Path) -> MediaRef:
    case = find_cases(shared_real)["ct_trunk"]
    return MediaRef(case.scan, kind="volume", masks=tuple(sorted(case.masks.items())))


@pytest.mark.parametrize("name", TWINS)
def test_twin_has_its_bases_weights_and_crops_around_the_papers_organs(name: str) -> None:
    base, cropped = (fresh(n) for n in (name, name.replace("nano_", "nano_nn_")))
    ours, theirs = own_model(base).state_dict(), own_model(cropped).state_dict()
    assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    assert isinstance(cropped.transform, VolumeInput)
    assert isinstance(base.transform, VolumeInput)
    prepare = cropped.transform.prepare
    assert isinstance(prepare, CroppedTransform)
    assert (prepare.then, prepare.organs, prepare.margin_mm) == (base.transform.prepare, TARGETS, 20.0)
    assert zoo_entry(name.replace("nano_", "nano_nn_")).by_organ


def test_organs_and_margin_are_the_recipes_to_choose() -> None:
    loading = Loading(crop_organs=("liver",), crop_margin_mm=0.0)
    transform = zoo_entry("nano_nn_merlin").assemble(0, loading).transform
    assert isinstance(transform, VolumeInput)
    assert isinstance(transform.prepare, CroppedTransform)
    assert (transform.prepare.organs, transform.prepare.margin_mm) == (("liver",), 0.0)
    with pytest.raises(ValueError, match=r"model\.crop_"):
        assemble_model("nano_merlin", 0, loading)


@pytest.mark.parametrize("name", in_suites(TWINS, slow=ON_A_REAL_SCAN))
def test_crop_of_a_real_scan_is_another_answer(name: str, real_ref: MediaRef) -> None:
    logprobs = []
    for organs in (("liver",), ("pancreas",)):
        assembled = zoo_entry(name.replace("nano_", "nano_nn_")).assemble(0, Loading(crop_organs=organs))
        item = read_item(real_ref, assembled.transform)
        model = own_model(assembled).eval()
        with torch.no_grad():
            tokens = model.encode(assembled.transform.stack([item]))
            logprobs.append(model(answered(assembled, "12 cm"), tokens).logprobs_T)
    assert (logprobs[0] - logprobs[1]).abs().max() > 1e-4


def test_more_tokens_than_the_context_are_refused_by_name() -> None:
    parts = m3d_parts(llama())
    parts.language.max_position_embeddings = 20
    with pytest.raises(ValueError, match=r"reads 20 \(max_position_embeddings\); 8 of them are the media's"):
        parts.limited(tokenizer()).layout("how large is the liver?", "12 cm")
