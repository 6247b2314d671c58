"""What a verb prints and writes: columns, progress, files, signs of a terminal."""
