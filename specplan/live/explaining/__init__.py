"""Why a server that speculates is slow: from its counters to causes, a better k and flags."""
