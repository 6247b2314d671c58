"""The rules, one theme a file: `<theme>.toml` says what a rule is, `<theme>.py` judges where an expression cannot."""
