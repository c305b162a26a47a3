"""What a plan prints to be run: commands of servers, and the flags that versions of engines have."""
