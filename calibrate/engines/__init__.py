"""Engines with a common protocol (`calibrate.engines.protocol`); torch and vLLM are imported where they are used."""
