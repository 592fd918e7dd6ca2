"""Benchmarks: `python -m benchmarks --help`, or `make bench`.

`methods.py` lists the algorithms, `peers/` the packages to compare with. A benchmark is a file with a function
`cases(settings)`; `runner.py` measures its cases, `report.py` and `plots.py` show the results.
"""
