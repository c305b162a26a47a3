"""Tables of papers, predicted from inputs that are stated, beside what is printed."""
