"""The sandbox for code that a model wrote: bubblewrap from outside, limits from inside, a watch over both."""
