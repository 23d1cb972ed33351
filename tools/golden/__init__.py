"""Two revisions of the project on one machine: the same runs by both, and what differs between their results.

    make golden BASE=REV
    python -m tools.golden REV [--only PATTERN]

Machines round differently, so no result is written down: what a revision computes is computed anew beside what the
checkout computes.
"""
