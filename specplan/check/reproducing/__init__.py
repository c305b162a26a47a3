"""Tables of papers, predicted from stated inputs and compared with the printed values."""
