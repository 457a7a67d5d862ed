"""CTranslate2's model directories, and the packages of Argos Translate that hold them."""
