"""The linking models (phi), their training and their calibration."""
