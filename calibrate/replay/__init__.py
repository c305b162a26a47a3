"""From a profile to what the simulator needs: answers and engines."""
