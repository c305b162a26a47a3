"""Whether what is seen still is what was predicted: sequential tests with a stated false-alarm rate."""
