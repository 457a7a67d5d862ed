"""Translators' files: read as pairs of texts, and filled where they are untranslated."""
