"""Plugins of the test suite."""

pytest_plugins = ["fix_postgres", "fix_browser"]
