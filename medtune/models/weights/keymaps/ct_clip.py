"""The key maps of CT-CLIP_v2.pt and of CT-CHAT's clip_visual_encoder.pth, which hold the CTViT tower.

Source: ibrahimethemhamamci/CT-CLIP@a2a155c6; CT-CLIP issues 47 and 48, CT-CHAT issue 5.
"""

from medtune.models.weights.keymaps.key_map import KeyMap, Rule


def _tower(prefix: str) -> KeyMap:
    stack = prefix + r"enc_(spatial|temporal)_transformer\."
    layer = stack + r"layers\.(\d+)\."
    ours = r"vision.\1.layers.\2."
    first = ("first_norm", "first_linear", "first_out")
    return KeyMap(
        checkpoint="CT-CLIP_v2.pt" if prefix else "CT-CHAT's clip_visual_encoder.pth",
        rules=(
            *(
                Rule(prefix + rf"to_patch_emb\.{theirs}\.(.+)", (rf"vision.patch_embedding.{theirs - 1}.\1",))
                for theirs in (1, 2, 3)
            ),
            *(
                Rule(prefix + rf"to_patch_emb_first_frame\.{i + 1}\.(.+)", (rf"vision.unread.{name}_\1",))
                for i, name in enumerate(first)
            ),
            Rule(prefix + r"to_pixels\.0\.(.+)", (r"vision.unread.pixels_\1",)),
            Rule(prefix + r"to_pixels_first_frame\.0\.(.+)", (r"vision.unread.first_pixels_\1",)),
            *(
                Rule(prefix + rf"spatial_rel_pos_bias\.net\.{theirs}\.(.+)", (rf"vision.position_bias.net.{ours_}.\1",))
                for theirs, ours_ in ((r"0\.0", 0), (r"1\.0", 2), ("2", 4))
            ),
            Rule(layer + r"0\.dsconv\.(.+)", (ours + r"near.\3",)),
            Rule(layer + r"1\.(q_scale|k_scale|to_q\.weight|to_kv\.weight|to_out\.weight)", (ours + r"attention.\3",)),
            Rule(layer + r"1\.norm\.gamma", (ours + "attention.norm.weight",)),
            Rule(layer + r"3\.0\.(.+)", (ours + r"mlp.norm.\3",)),
            Rule(layer + r"3\.1\.weight", (ours + "mlp.to_hidden.weight",)),
            Rule(layer + r"3\.4\.weight", (ours + "mlp.to_out.weight",)),
            Rule(stack + r"norm_out\.gamma", (r"vision.\1.norm.weight",)),
            Rule(prefix + r"vq\._codebook\.embed", ("vision.codebook_1KD",)),
        ),
        left_out=(
            # The release has no learned keys or values beside those of the tokens, so the tensor is empty.
            layer + r"1\.null_kv",
            # Only attention to another sequence would read this norm.
            layer + r"1\.context_norm\.gamma",
            prefix + r"vq\._codebook\.(initted|cluster_size|embed_avg)",
            r"text_transformer\..+",
            r"to_(text|visual)_latent(_extra)?\.weight",
            "temperature",
        ),
        zeros=(layer + r"1\.(norm|context_norm)\.beta", stack + r"norm_out\.beta"),
    )


CT_CLIP = _tower(r"visual_transformer\.")
VISUAL_ENCODER = _tower("")
