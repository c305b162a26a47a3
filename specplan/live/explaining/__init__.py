"""Why a speculating server is slow: causes, the best k and the flags to set, from its counters."""
