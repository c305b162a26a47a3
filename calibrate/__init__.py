"""Real time: engines that generate text, the asyncio clock that drives algorithms on them, measuring, profiles."""
