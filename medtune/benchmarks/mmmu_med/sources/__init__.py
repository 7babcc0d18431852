"""The sources that read MMMU's medical subjects: the validation part, and the test part where its answers are known."""
