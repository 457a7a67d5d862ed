"""What command lines share: how they run and fail, and flags that several of them have."""
