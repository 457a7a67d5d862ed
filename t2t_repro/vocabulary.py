"""The ids that the whole project agrees on: no start symbol, padding is zero."""

PAD_ID = 0
EOS_ID = 1
UNK_ID = 2

CONTINUES = "##"
"""Begins the name of a subword that goes on with the word before it, where subwords are named."""

NO_WORD = -1
"""Stands for the number of a word where there is none: EOS and PAD belong to no word."""
