"""The functions of `tede.nn.functional`, one file per family. Import them from there."""
