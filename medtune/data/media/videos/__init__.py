"""Ultrasound videos: clips by time and region, frames by count or by rate, from containers and cine DICOM."""
