"""Towers over volumes: voxels -> a grid of features, one module per architecture."""
