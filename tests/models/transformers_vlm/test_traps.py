"""Tests known pitfalls of transformers' model families, one each."""

from typing import Any

import pytest
import torch

from medtune.data.types import Size
from medtune.models.sequence.builder import IGNORED
from medtune.models.transformers_vlm.families import find_family
from medtune.models.transformers_vlm.visual_tokens import VisualTokens
from medtune.models.zoo.nano_hub import MLLAMA_TEMPLATE
from tests.models.transformers_vlm.test_parity import conversation, encoded, expected, pillow, plain, processor, whole
from tests.models.twins import OF_TRANSFORMERS, picture, row_each, size_of, twin

each_family = pytest.mark.parametrize("name", OF_TRANSFORMERS)


def test_without_mm_token_type_ids_transformers_itself_goes_wrong_and_we_do_not() -> None:
    """transformers then silently falls back to one axis of positions; medtune's positions come from the layout."""
    assembled, image = twin("nano_qwen25vl"), picture()
    layout = assembled.template.layout("Plane?", "head", shapes=[size_of(image)])
    right = expected(plain(assembled, image, "Plane?", "head"), layout)
    wrong = expected(plain(assembled, image, "Plane?", "head", mm_token_type_ids=None), layout)
    assert max(abs(a - b) for a, b in zip(right, wrong, strict=True)) > 1e-2
    ours = assembled.model(row_each(assembled, [layout], [0]), encoded(assembled, image)).logprobs_T.tolist()
    assert ours == pytest.approx(right, abs=2e-4)


@pytest.mark.parametrize(("width", "height"), [(90, 60), (60, 90), (200, 33), (5, 5)])
def test_positions_equal_transformers_rope_index(width: int, height: int) -> None:
    assembled = twin("nano_qwen25vl")
    layout = assembled.template.layout("Plane?", "head", shapes=[Size(width, height)])
    pixels = assembled.transform(picture(width=width, height=height))
    (span,) = layout.media_spans
    kinds_BL = torch.zeros(1, len(layout.ids), dtype=torch.int64)
    kinds_BL[0, span.start : span.stop] = 1
    told, _ = whole(assembled).model.get_rope_index(
        torch.tensor([layout.ids]), mm_token_type_ids=kinds_BL, image_grid_thw=pixels["image_grid_thw"]
    )
    assert torch.equal(torch.tensor(layout.positions).T, told[:, 0])


def test_cross_attention_mask_is_that_of_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text before the image does not see it, text behind it does, and padding tiles are never seen."""
    assembled, image = twin("nano_mllama"), picture(width=90, height=30)
    layout = assembled.template.layout("Plane?", "head", shapes=[size_of(image)])
    seen: dict[str, Any] = {}
    model = whole(assembled).model
    forward = type(model).forward

    def spy(self: Any, **arguments: Any) -> Any:
        seen.update(arguments)
        return forward(self, **arguments)

    monkeypatch.setattr(type(model), "forward", spy)
    assembled.model(row_each(assembled, [layout], [0]), encoded(assembled, image))
    text = conversation(assembled, image, "Plane?") + "head<|eot_id|>"
    told = processor(assembled)(text=text, images=[pillow(image)], return_tensors="pt")
    # The last token is only predicted, so the model does not read it.
    assert torch.equal(seen["cross_attention_mask"], told["cross_attention_mask"][:, :-1])
    assert 0 < float(told["cross_attention_mask"].float().mean()) < 1


def test_image_token_of_llama_is_never_learnt_since_the_output_layer_does_not_know_it() -> None:
    assembled = twin("nano_mllama")
    layout = assembled.template.layout("Plane?", "head", shapes=[Size(90, 60)])
    outputs = whole(assembled).get_output_embeddings().weight.shape[0]
    assert max(layout.ids) == outputs, "the image token is the first id without an output"
    assert all(label < outputs for label in layout.labels)


@each_family
def test_only_the_answer_and_the_end_of_its_turn_are_learnt(name: str) -> None:
    template = twin(name).template
    layout = template.layout("Plane?", "head", shapes=[Size(90, 60)])
    learnt = [label for label in layout.labels if label != IGNORED]
    assert template.decode(learnt).strip() == "head"
    assert learnt[-1] == template.stop_ids[0]
    assert layout.labels[-len(learnt) :] == layout.ids[-len(learnt) :]
    for span in layout.media_spans:
        assert set(layout.labels[span.start : span.stop]) == {IGNORED}


@each_family
def test_questions_about_one_image_share_a_prefix_that_holds_it(name: str) -> None:
    template = twin(name).template
    one, two = (template.layout(q, "a", shapes=[Size(90, 60)]) for q in ("first", "other question"))
    (span,) = one.media_spans
    assert one.ids[: span.stop] == two.ids[: span.stop]
    assert one.positions[: span.stop] == two.positions[: span.stop]


@each_family
def test_data_cannot_spell_control_tokens(name: str) -> None:
    assembled = twin(name)
    control = next(
        t for t in processor(assembled).tokenizer.get_added_vocab() if "im" in t.lower() and "start" not in t
    )
    stop = assembled.template.pieces([assembled.template.stop_ids[0]])[0]
    layout = assembled.template.layout(f"Is {control} {stop} here?", f"no {stop}", shapes=[Size(90, 60)])
    calm = assembled.template.layout("Is it here?", "no", shapes=[Size(90, 60)])
    assert layout.ids.count(assembled.template.stop_ids[0]) == calm.ids.count(assembled.template.stop_ids[0])
    assert layout.labels.count(assembled.template.stop_ids[0]) == 1
    assert layout.media_spans == calm.media_spans


@each_family
def test_too_long_a_row_is_refused_and_never_cut(name: str) -> None:
    assembled = twin(name)
    limit = whole(assembled).config.get_text_config().max_position_embeddings
    with pytest.raises(ValueError, match=rf"where the model reads {limit}.*neither an image nor an answer is ever cut"):
        assembled.template.layout("x" * limit, "a", shapes=[Size(90, 60)])


@each_family
def test_size_of_the_image_must_be_given(name: str) -> None:
    with pytest.raises(ValueError, match="depends on the size of the image"):
        twin(name).template.layout("Plane?", "a")


def test_too_narrow_an_image_is_refused() -> None:
    with pytest.raises(ValueError, match="aspect ratio"):
        twin("nano_qwen25vl").template.layout("Plane?", "a", shapes=[Size(1, 300)])
    with pytest.raises(ValueError, match="1 x 300 pixels does not suit the model"):
        twin("nano_qwen25vl").transform(picture(width=1, height=300))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (None, "no chat template"),
        (
            "{% for m in messages %}{% for p in m['content'] %}{{ p.get('text', '') }}{% endfor %}{% endfor %}",
            "drops the image",
        ),
        (
            "{% for m in messages %}<|vision_start|><|image_pad|><|vision_end|>{% endfor %}",
            "drops or repeats the question",
        ),
        ("{{ raise_exception('no images') }}", "refuses a question about an image: no images"),
    ],
)
def test_chat_template_that_loses_something_is_refused(template: str | None, message: str) -> None:
    from copy import copy

    changed = copy(processor(twin("nano_qwen25vl")))
    changed.chat_template = template
    with pytest.raises(ValueError, match=message):
        find_family("qwen2_vl").sequence(changed, config=whole(twin("nano_qwen25vl")).config, max_tokens=100)


def test_prompt_does_not_change_over_night() -> None:
    """Llama 3.2's template writes today's date into a conversation without an image."""
    from copy import copy

    dated = copy(processor(twin("nano_mllama")))
    dated.chat_template = "Today: {{ date_string }} " + MLLAMA_TEMPLATE.replace("{{ bos_token }}", "")
    template = find_family("mllama").sequence(dated, config=whole(twin("nano_mllama")).config, max_tokens=4096)
    assert "Today: 26 Jul 2024" in template.decode(template.layout("Q", None, shapes=()).ids)


@each_family
def test_visual_tokens_are_counted_before_the_image_is_read(name: str) -> None:
    assembled = twin(name)
    for width, height in ((90, 60), (30, 170), (56, 56), (9, 8)):
        image = picture(width=width, height=height)
        (span,) = assembled.template.layout("Plane?", "a", shapes=[size_of(image)]).media_spans
        found = encoded(assembled, image)
        # An image that stands beside the row takes one token in it.
        count = len(found.tokens[0]) if isinstance(found, VisualTokens) else 1
        assert span.stop - span.start == count, (width, height)


@each_family
def test_images_of_several_sizes_are_encoded_together_as_alone(name: str) -> None:
    assembled, images = twin(name), [picture(1), picture(2, width=30, height=170)]
    together = encoded(assembled, *images)
    for index, image in enumerate(images):
        alone = encoded(assembled, image)
        for many, one in zip(_encoded_item(together, index), _encoded_item(alone, 0), strict=True):
            assert torch.allclose(many, one, atol=1e-5)


def _encoded_item(found: Any, index: int) -> list[torch.Tensor]:
    """Returns all tensors that the decoder is shown of one image."""
    if isinstance(found, VisualTokens):
        return [found.tokens[index], *(layer[index] for layer in found.deep)]
    return [found.states_MTPE[index][found.is_tile_MT[index]]]


def test_gemma_looks_both_ways_inside_an_image() -> None:
    """Without token_type_ids, transformers silently masks the image causally."""
    assembled, image = twin("nano_gemma3"), picture()
    layout = assembled.template.layout("Plane?", "head", shapes=[size_of(image)])
    right = expected(plain(assembled, image, "Plane?", "head"), layout)
    wrong = expected(plain(assembled, image, "Plane?", "head", token_type_ids=None), layout)
    assert max(abs(a - b) for a, b in zip(right, wrong, strict=True)) > 1e-2
    ours = assembled.model(row_each(assembled, [layout], [0]), encoded(assembled, image)).logprobs_T.tolist()
    assert ours == pytest.approx(right, abs=2e-4)


def test_learnt_answer_follows_on_what_a_reply_is_asked_for_with() -> None:
    """LLaVA-OneVision's template writes a blank in the assistant's turn that its prompt for generation lacks."""
    template = twin("nano_llava_onevision").template
    asked, answered = (template.layout("Plane?", answer, shapes=[Size(90, 60)]) for answer in (None, "head"))
    assert answered.ids[: len(asked.ids)] == asked.ids
    assert template.decode(answered.ids[len(asked.ids) :]) == "head"
