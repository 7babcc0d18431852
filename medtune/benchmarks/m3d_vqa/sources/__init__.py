"""The released tables that M3D-VQA questions are read from."""
