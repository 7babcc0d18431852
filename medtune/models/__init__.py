"""Media and text become answers: towers, projectors, language models, sequences, tuning."""

import logging

# peft imports bitsandbytes wherever it is installed, and each command would begin with its advice on a CPU kernel that
# trains nothing.
logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
