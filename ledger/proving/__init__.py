"""The machinery of all proofs: balls, symbolic identities, printed numbers, and ways to combine evidence."""
