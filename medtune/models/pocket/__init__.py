"""Parts of the pocket models: small models with pretrained parts, which can be trained on a laptop."""
