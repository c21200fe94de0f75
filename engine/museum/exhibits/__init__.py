"""The exhibits: each module runs one fault and its mended form, small enough to be read in full."""
