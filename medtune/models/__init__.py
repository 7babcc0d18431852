"""Vision-language models: towers, projectors, language models, sequences of tokens, tuning and answering."""

import logging

# peft imports bitsandbytes if it is installed. Every command would then print bitsandbytes' advice on a CPU kernel,
# which training does not use.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
