"""How runs differ and what came of them: the list of runs, tables, curves, and reports."""
