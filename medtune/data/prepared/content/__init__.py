"""What a media file shows once it is decoded, so that one scan or clip is recognised in any file format."""
