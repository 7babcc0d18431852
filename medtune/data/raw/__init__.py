"""Reads raw files, as they were downloaded, into questions: the Source type and readers that many sources share."""
