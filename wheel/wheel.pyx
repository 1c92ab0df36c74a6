"""Wheel: what Python sees of the shards. wheel.pxd and wheel.pyi say what it promises."""

import re

import numpy as np

cimport cython
cimport numpy as cnp
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from mainspring.wheel.audit cimport FAULTS_KNOWN
from mainspring.wheel.batch cimport ACCEPTED, Batch, batch_apply, batch_refusal
from mainspring.wheel.catch_up cimport MISSED_AFTER_S
from mainspring.wheel.census cimport census
from mainspring.wheel.core cimport (
    WRONG_SECOND, Core, add_counts, armed_for, audit_locked, bytes_of, clear_all, core_close, core_open,
    drain_second, inflict_locked, knows, reserve_jobs, shard_for, time_holds,
)
from mainspring.wheel.cron_eval cimport CompiledCron
from mainspring.wheel.digest cimport Names, digest_of_text
from mainspring.wheel.digest_walk cimport digest_of_row
from mainspring.wheel.drain cimport WHOLE
from mainspring.wheel.edit cimport OP_DELETE, Definition_t
from mainspring.wheel.faults cimport NOT_ARMED
from mainspring.wheel.frames cimport Frames, RouteText
from mainspring.wheel.holds cimport holds_count, holds_within
from mainspring.wheel.lookup cimport Question, look_up
from mainspring.wheel.leap cimport leap_all
from mainspring.wheel.load cimport load_add, load_build, load_close, load_open
from mainspring.wheel.memory cimport DONE, NO_MEMORY, memory_give, memory_take
from mainspring.wheel.registry cimport Registry, registry_add, registry_close
from mainspring.wheel.schedule cimport KIND_CRON, KIND_INTERVAL, KIND_ONCE
from mainspring.wheel.shard cimport NEVER, SHARDS, Shard
from mainspring.wheel.stage cimport REFUSED_NO_LOAD

from mainspring.wheel import layout

cnp.import_array()

cdef object DEFINITION = layout.DEFINITION

# Shards between the beginnings of one batch and the next.
cdef enum:
    APART = 149

FAULTS = (
    "dropped", "doubled", "wrong_slot", "one_period_late", "not_rearmed", "orphan", "miscounted", "unindexed",
    "index_stray", "free_list", "index_miscounted",
)

# By the number of the refusal.
REFUSALS = (
    "",
    "op={op}: give one of OP_LOAD, OP_INSERT, OP_UPDATE, OP_DELETE",
    "kind={kind}: give one of KIND_INTERVAL, KIND_CRON, KIND_ONCE",
    "every_s={every_s}: an interval lasts 1 second or more",
    "boost_every_s={boost_every_s}: give 0 for no boost, or 1 second and more",
    "route={route}: get a route's number from Wheel.route first",
    "cron={cron}: get an expression's number from Wheel.cron first",
    "key_at={key_at}, key_len={key_len}: a key is 255 bytes at most and lies within `texts`",
    "data_at={data_at}, data_len={data_len}: a payload is 65536 bytes at most and lies within `texts`",
    "catch_up={catch_up}: give one of CATCH_UP_ALL, CATCH_UP_LATEST, CATCH_UP_NONE",
)
NO_LOAD = "op={op}: a loader takes OP_LOAD; give other changes to Wheel.apply once it is finished"

ROUTE = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,7}", re.ASCII)
REPLY = re.compile(r"[!-)+-=?-~]+", re.ASCII)

# ----------------------------------------------------------------------------------------- border


cdef object out_of_memory(str what):
    return MemoryError(f"no memory {what}; nothing is half done, free some and repeat the call")


cdef RouteText* new_route(bytes text) except NULL:
    cdef RouteText* route = <RouteText*>memory_take(sizeof(RouteText))
    if route == NULL:
        raise out_of_memory("for a route")
    route.bytes = <uint32_t>len(text)
    memcpy(route.text, <const char*>text, len(text))
    return route


# The number of a thing and of its name, which is one; -1 when there is no memory for both.
cdef int64_t add_named(Registry* things, void* thing, Registry* names, bytes name):
    cdef uint64_t digest = digest_of_text(<const uint8_t*><const char*>name, <uint32_t>len(name))
    cdef int64_t number
    if registry_add(names, <void*>digest) < 0:
        return -1
    number = registry_add(things, thing)
    if number < 0:
        names.count -= 1
    return number


cdef inline uint64_t row_digest(const Batch* batch, uint64_t i, const Names* names) noexcept nogil:
    if batch.rows[i].op == OP_DELETE:
        return 0
    return digest_of_row(&batch.rows[i], batch.texts, names)


cdef object refusal_of(int refusal, object row, uint64_t number):
    fields = {name: row[name].item() for name in DEFINITION.names}
    reason = NO_LOAD if refusal == REFUSED_NO_LOAD else REFUSALS[refusal]
    return ValueError(f"row {number}, job {fields['id']}: {reason.format(**fields)}")


cdef void describe(Batch* batch, Wheel wheel, cnp.ndarray definitions, bytes texts):
    memset(batch, 0, sizeof(Batch))
    batch.rows = <const Definition_t*>cnp.PyArray_DATA(definitions)
    batch.count = cnp.PyArray_DIM(definitions, 0)
    batch.texts, batch.texts_bytes = <const uint8_t*><const char*>texts, len(texts)
    batch.routes, batch.crons = wheel.core.routes.count, wheel.core.crons.count


cdef dict named(const uint64_t* found):
    return {FAULTS[i]: found[i] for i in range(FAULTS_KNOWN)}


cdef int shard_number(object shard) except -1:
    if not 0 <= shard < SHARDS:
        raise IndexError(f"shard={shard}: give 0 to {SHARDS - 1}")
    return shard


# The usual batch is laid out as it should be, and passes at the cost of a few comparisons of pointers.
cdef cnp.ndarray definitions_of(cnp.ndarray rows):
    cdef object dtype = <object>cnp.PyArray_DESCR(rows)
    if dtype is not DEFINITION and dtype != DEFINITION or cnp.PyArray_NDIM(rows) != 1:
        raise TypeError(f"rows: give one dimension of DEFINITION, not {rows.ndim} of {rows.dtype}")
    if cnp.PyArray_IS_C_CONTIGUOUS(rows) and cnp.PyArray_ISALIGNED(rows):
        return rows
    return np.array(rows)


cdef cnp.ndarray ids_of(cnp.ndarray ids):
    if ids.dtype != np.int64 or ids.ndim != 1:
        raise TypeError(f"ids: give one dimension of int64, not {ids.ndim} of {ids.dtype}")
    return np.require(ids, np.int64, "CA")


cdef int ask(Core* core, cnp.ndarray ids, int64_t* dues, uint8_t* known) except -1:
    cdef Question question
    cdef int code
    question.ids, question.count = <const int64_t*>cnp.PyArray_DATA(ids), cnp.PyArray_DIM(ids, 0)
    question.dues, question.known = dues, known
    with nogil:
        code = look_up(&question, core.shards)
    if code == NO_MEMORY:
        raise out_of_memory(f"to look up {question.count} jobs")
    return 0


cdef class Wheel:
    def __cinit__(
        self,
        now: int,
        *,
        instance: str = "mainspring",
        reply_prefix: str = "_INBOX.x",
        catch_up_window_s: int = 90,
    ):
        if len(instance) > 64 or not re.fullmatch(r"[A-Za-z0-9_-]+", instance, re.ASCII):
            raise ValueError(f"instance={instance!r}: use 1 to 64 of A-Z a-z 0-9 _ -")
        if len(reply_prefix) > 128 or not REPLY.fullmatch(reply_prefix):
            raise ValueError(f"reply_prefix={reply_prefix!r}: use a subject of up to 128 characters")
        if not 0 <= catch_up_window_s <= 86400:
            raise ValueError(f"catch_up_window_s={catch_up_window_s}: give 0 to 86400 seconds")
        if not -(2**61) < now < 2**61:
            raise ValueError(f"now={now}: give epoch seconds")
        if core_open(&self.core, now) == NO_MEMORY:
            raise out_of_memory("for a wheel")
        self.core.window = catch_up_window_s
        self.subject, self.reply_prefix = f"{instance}.run.", reply_prefix
        self.route_numbers, self.cron_numbers, self.compiled = {}, {}, []
        opening = f'{{"specversion":"1.0","type":"mainspring.run","source":"{instance}","id":"'.encode()
        memcpy(self.core.envelope.opening, <const char*>opening, len(opening))
        self.core.envelope.opening_bytes = <uint32_t>len(opening)

    def __dealloc__(self):
        core_close(&self.core)
        registry_close(&self.names.routes)
        registry_close(&self.names.crons)

    def __repr__(self) -> str:
        return f"<Wheel at {self.core.now}: {len(self)} jobs>"

    @property
    def now(self) -> int:
        return self.core.now

    def route(self, route: str) -> int:
        cdef int64_t number
        cdef RouteText* text
        if route in self.route_numbers:
            return self.route_numbers[route]
        if len(route) > 128 or not ROUTE.fullmatch(route):
            raise ValueError(
                f"route={route[:140]!r}: use 1 to 8 tokens of A-Z a-z 0-9 _ - with dots between, "
                "128 characters in all"
            )
        text = new_route(f"HPUB {self.subject}{route} {self.reply_prefix}.".encode())
        number = add_named(&self.core.routes, text, &self.names.routes, route.encode())
        if number < 0:
            memory_give(text)
            raise out_of_memory("for a route")
        self.route_numbers[route] = number
        return number

    def cron(self, expression: str, tz: str) -> int:
        cdef int64_t number
        cdef CompiledCron compiled
        if (expression, tz) in self.cron_numbers:
            return self.cron_numbers[expression, tz]
        compiled = CompiledCron(expression, tz)
        self.compiled.append(compiled)
        pair = f"{expression}\0{tz}"
        number = add_named(&self.core.crons, compiled.group, &self.names.crons, pair.encode())
        if number < 0:
            self.compiled.pop()
            raise out_of_memory("for a cron expression")
        self.cron_numbers[expression, tz] = number
        return number

    cdef int require_whole(self) except -1:
        if self.loading:
            raise RuntimeError("a loader is open on this wheel: finish or close it first")
        return 0

    def loader(self) -> Loader:
        return Loader(self)

    def reserve(self, jobs: int) -> None:
        cdef uint64_t count = jobs
        cdef int code
        self.require_whole()
        with nogil:
            code = reserve_jobs(&self.core, count)
        if code == NO_MEMORY:
            raise out_of_memory(f"for {jobs} jobs")

    def apply(self, cnp.ndarray rows not None, bytes texts not None) -> int:
        cdef cnp.ndarray definitions = definitions_of(rows)
        cdef Batch batch
        cdef uint64_t refused
        cdef int code
        self.require_whole()
        describe(&batch, self, definitions, texts)
        self.first_shard = batch.first_shard = (self.first_shard + APART) % SHARDS
        self.applying += 1
        with nogil:
            code = batch_refusal(&batch, &refused)
            if code == ACCEPTED:
                code = batch_apply(&batch, self.core.shards, &self.core.source, &self.core.evacuations)
        self.applying -= 1
        if code == NO_MEMORY:
            raise out_of_memory(f"after {batch.applied} of {batch.count} rows")
        if code != DONE:
            raise refusal_of(code, rows[refused], refused)
        return batch.changed

    def digests(self, cnp.ndarray rows not None, bytes texts not None) -> np.ndarray:
        cdef cnp.ndarray definitions = definitions_of(rows)
        cdef cnp.ndarray digests = np.empty(len(definitions), np.uint64)
        cdef uint64_t* to = <uint64_t*>cnp.PyArray_DATA(digests)
        cdef Batch batch
        cdef uint64_t refused, i
        cdef int code
        describe(&batch, self, definitions, texts)
        with nogil:
            code = batch_refusal(&batch, &refused)
            if code == ACCEPTED:
                for i in range(batch.count):
                    to[i] = row_digest(&batch, i, &self.names)
        if code != ACCEPTED:
            raise refusal_of(code, rows[refused], refused)
        return digests

    def drain(self, second: int, now: int, Frames frames not None) -> bool:
        cdef int64_t drained = second
        cdef int64_t clock = now
        cdef uint64_t due = frames.output.due
        cdef int code
        self.require_whole()
        if len(frames) and frames.second != second:
            raise ValueError(f"frames still hold second {frames.second}: reset them before second {second}")
        with nogil:
            code = drain_second(&self.core, drained, clock, &frames.output)
        if code == WRONG_SECOND:
            raise ValueError(f"second={second}: the next second to drain is {self.core.now + 1}")
        # What was given first must not be lost with an error: the next call meets the want by itself.
        if code == NO_MEMORY and frames.output.due == due:
            raise out_of_memory(f"to drain second {second}")
        return code == WHOLE

    def leap(self, second: int, now: int) -> None:
        cdef int64_t last = second
        cdef int64_t clock = now
        cdef int code
        self.require_whole()
        with nogil:
            code = leap_all(&self.core, last, clock)
        if code == WRONG_SECOND:
            raise ValueError(
                f"second={second}: leap between two seconds, to one after {self.core.now} and not after "
                f"{self.farthest_leap(now)}"
            )
        if code == NO_MEMORY:
            raise out_of_memory(f"to leap to second {second}")

    def farthest_leap(self, now: int) -> int:
        return now - max(self.core.window, <int64_t>MISSED_AFTER_S) - 1

    def begun(self, shard: int) -> int:
        return self.core.shards[shard_number(shard)].begun

    def check(self, shard: int) -> dict[str, int]:
        cdef uint64_t found[11]
        cdef Shard* at = &self.core.shards[shard_number(shard)]
        memset(found, 0, sizeof(found))
        with nogil:
            audit_locked(&self.core, at, False, found)
        return named(found)

    def sweep(self, shard: int) -> dict[str, int]:
        cdef uint64_t found[11]
        cdef Shard* at = &self.core.shards[shard_number(shard)]
        cdef int code
        memset(found, 0, sizeof(found))
        with nogil:
            code = audit_locked(&self.core, at, True, found)
        if code == NO_MEMORY:
            raise out_of_memory(f"to heal shard {shard}")
        return named(found)

    def next_due(self, job_id: int) -> int | None:
        cdef int64_t id = job_id
        cdef int64_t due
        with nogil:
            due = armed_for(shard_for(&self.core, id), id)
        return None if due == NEVER else due

    def next_dues(self, cnp.ndarray ids not None) -> np.ndarray:
        cdef cnp.ndarray jobs = ids_of(ids)
        cdef cnp.ndarray dues = np.empty(len(jobs), np.int64)
        ask(&self.core, jobs, <int64_t*>cnp.PyArray_DATA(dues), NULL)
        return dues

    def knows(self, cnp.ndarray ids not None) -> np.ndarray:
        cdef cnp.ndarray jobs = ids_of(ids)
        cdef cnp.ndarray known = np.empty(len(jobs), np.bool_)
        ask(&self.core, jobs, NULL, <uint8_t*>cnp.PyArray_DATA(known))
        return known

    def ids(self, shard: int) -> np.ndarray:
        cdef Shard* at = &self.core.shards[shard_number(shard)]
        cdef int64_t* to = NULL
        cdef uint64_t room = 0
        cdef uint64_t jobs = census(at, NULL, 0)
        ids = np.empty(0, np.int64)
        while jobs > room:  # more than there was room for, or more by now
            room = jobs
            ids = np.empty(room, np.int64)
            to = <int64_t*>cnp.PyArray_DATA(<cnp.ndarray>ids)
            with nogil:
                jobs = census(at, to, room)
        return ids[:jobs]

    def __contains__(self, job_id: int) -> bool:
        cdef int64_t id = job_id
        cdef bint known
        with nogil:
            known = knows(shard_for(&self.core, id), id)
        return known

    def __len__(self) -> int:
        return sum(self.counts().values())

    def counts(self) -> dict[str, int]:
        cdef uint64_t kinds[4]
        cdef uint64_t paused = 0
        cdef uint64_t jobs = 0
        memset(kinds, 0, sizeof(kinds))
        with nogil:
            add_counts(&self.core, kinds, &paused, &jobs)
        return {
            "interval": kinds[KIND_INTERVAL],
            "cron": kinds[KIND_CRON],
            "once": kinds[KIND_ONCE],
            "paused": paused,
        }

    @property
    def nbytes(self) -> int:
        cdef size_t total
        with nogil:
            total = bytes_of(&self.core)
        return total

    def time_locks(self, wanted: bool = True) -> None:
        cdef bint on = wanted
        with nogil:
            time_holds(&self.core, on)

    def lock_holds(self, *per_mille: int) -> tuple[int, ...]:
        if not all(0 < part <= 1000 for part in per_mille):
            raise ValueError(f"per_mille={per_mille}: give parts of a thousand, each from 1 to 1000")
        within = [holds_within(&self.core.holds, part, 1000) for part in per_mille]
        return holds_count(&self.core.holds), *within

    def clear(self) -> None:
        self.require_whole()
        with nogil:
            clear_all(&self.core)

    def _inject(self, fault: str, job_id: int) -> None:
        cdef int64_t id = job_id
        cdef int kind = FAULTS.index(fault)
        cdef int code
        with nogil:
            code = inflict_locked(shard_for(&self.core, id), kind, id)
        if code == NO_MEMORY:
            raise out_of_memory("for a fault")
        if code == NOT_ARMED:
            raise KeyError(f"job {job_id} has no entry: only an armed job can be given this fault")


# Its pages belong to the wheel's source, so it gives them back while it still has the wheel.
@cython.no_gc_clear
cdef class Loader:
    def __cinit__(self, Wheel wheel not None):
        wheel.require_whole()
        if wheel.applying:
            raise RuntimeError("another thread is applying changes to this wheel: load it before or after")
        if wheel.digesting:
            raise RuntimeError("a digester is open on this wheel: close it first")
        if len(wheel):
            raise RuntimeError(f"a loader fills an empty wheel, this one has {len(wheel)} jobs: clear it first")
        load_open(&self.load, &wheel.core)
        self.wheel, self.open, wheel.loading = wheel, True, True

    def __dealloc__(self):
        self.end()

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    cdef void end(self):
        if self.open:
            load_close(&self.load)
            self.open = self.wheel.loading = False

    def add(self, rows, texts: bytes) -> None:
        cdef cnp.ndarray definitions = definitions_of(rows)
        cdef Batch batch
        cdef uint64_t refused = 0
        cdef int code
        if not self.open or self.building:
            raise RuntimeError("this loader is finished or closed: make another")
        describe(&batch, self.wheel, definitions, texts)
        self.calls += 1
        with nogil:
            code = load_add(&self.load, &batch, &refused)
        self.calls -= 1
        if code == NO_MEMORY:
            raise out_of_memory(f"to stage {batch.count} rows")
        if code != DONE:
            raise refusal_of(code, rows[refused], refused)

    def finish(self) -> None:
        cdef int code
        if self.calls and not self.building:
            raise RuntimeError("rows are still being added by another thread")
        if self.open:
            self.building = True
            self.calls += 1
            with nogil:
                code = load_build(&self.load)
            self.calls -= 1
            self.code = code
            if self.calls == 0:
                self.end()
        elif not self.building:
            raise RuntimeError("this loader was closed before it was finished: make another")
        if self.code == NO_MEMORY:
            raise MemoryError("no memory to load the jobs; the wheel is empty, load them again")

    def close(self) -> None:
        if self.calls:
            raise RuntimeError("this loader is at work in another thread")
        self.end()
