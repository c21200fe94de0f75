"""The exhibits: each module runs one fault and its corrected form, short enough to read in full."""
