"""Engines behind one small protocol (`calibrate.backends.base`); torch and vLLM are imported only by those who ask."""
