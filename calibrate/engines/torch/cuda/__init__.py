"""What the torch engine does on GPUs: their names and memory, copies to them, and captured passes."""
