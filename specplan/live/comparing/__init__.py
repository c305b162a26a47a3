"""Whether speculation gains over plain decoding, measured in service by load: statistics and policy, without I/O."""
