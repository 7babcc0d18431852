"""Has a language model judge free answers, stores its verdicts, and compares them with a person's scores."""
