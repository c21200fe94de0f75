"""From what runs recorded to numbers and sentences: pure functions that know neither store nor page. Torch-free."""
