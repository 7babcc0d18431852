"""The source that reads M3D-VQA questions from the released tables and arrays."""
