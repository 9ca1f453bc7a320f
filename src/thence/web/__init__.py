"""The space-time page: a run as a diagram in a browser (``thence view``).

sources   what a PATH holds: run folders, segments, logs that ShiViz users have
execution one run, laid out, with what is asked of it
order     what happens before what, which path proves it, cuts, stability
windows   what is to be drawn of a stretch of it, from Parquet
texts     payloads: shown, searched, exported
state     data types at a cut
live      runs that still grow
app       the routes, and who may ask; server runs it
static/   the page: native ES modules, no build step
"""
