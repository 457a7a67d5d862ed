"""A translator as one graph: TensorFlow's SavedModel."""
