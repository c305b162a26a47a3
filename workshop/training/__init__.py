"""How the bundled pair is made: training, and measuring what came out."""
