"""Images, videos and volumes: files are decoded, changed, cropped and shown."""
