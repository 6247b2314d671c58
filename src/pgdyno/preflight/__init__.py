"""What would keep a configuration from coming into force, found out while the server still runs untouched.

`reading_*.py` read facts, `plan.py` says what the settings will be, one module a theme judges them by pure functions
from facts to a `Result`, and `examine.py` puts them together. A refused configuration costs no outage.
"""
