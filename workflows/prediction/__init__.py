"""Predictions for data of any size, and the files that they go to."""
