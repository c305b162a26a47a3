"""Virtual time: algorithms, clock, devices and behaviours that stand for real models, and their timelines."""
