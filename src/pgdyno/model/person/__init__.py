"""What passes between a live study and a person: its questions, and what operators ask of it."""
