"""The audit of a span: which runs were owed, and what the stream holds of them.

    report = await verify(settings, span, tell)

* `history.py` reads from Postgres which definition of each job held when, and how surely (`effect.py`);
* `grids.py`, `crons.py` and `once.py` say when such definitions run, without the engine's evaluator;
* `owed.py` puts them together, a step of the span at a time;
* `engine/broker/stream_reader.py` reads the stream in order, headers alone;
* `ledger.py` holds the one against the other in bounded memory, `gaps.py` excuses what a gap record explains;
* `verifying.py` leads all of it.
"""
