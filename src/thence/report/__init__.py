"""From metric tables to a page: figures, verdicts on the thesis' claims, ratios.

It reads Parquet with Arrow and lab.json; it knows neither Spark nor the runtime, so that a page can
be made again, anywhere, from tables that somebody else measured.
"""
