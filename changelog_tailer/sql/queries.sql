-- Named queries. Words in braces are filled in by the caller with checked literals: COPY takes no parameters.

-- name: server
select current_setting('server_version_num')::int as version,
       current_setting('server_version') as version_text,
       current_setting('server_encoding') as encoding,
       pg_is_in_recovery() as in_recovery,
       pg_backend_pid() as backend,
       to_regclass('mainspring.schema_versions') is not null as has_schema,
       exists (select from pg_trigger where tgrelid = to_regclass('mainspring.jobs')
               and tgname = 'log_inserted_jobs') as logs_changes

-- name: identity
select (select system_identifier from pg_control_system()) as system_identifier,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline,
       (select oid::bigint from pg_database where datname = current_database()) as database,
       to_regclass('mainspring.job_changes')::oid::bigint as log_table,
       pg_current_snapshot()::text as snapshot

-- name: log_end
-- The snapshot is that of the statement, so it is not younger than the position of the WAL beside it.
select pg_current_snapshot()::text as snapshot,
       (pg_current_wal_insert_lsn() - '0/0')::bigint as written_lsn,
       (pg_current_wal_flush_lsn() - '0/0')::bigint as flushed_lsn,
       to_regclass('mainspring.job_changes')::oid::bigint as log_table

-- name: expected_jobs
select greatest(reltuples, 0)::bigint from pg_class where oid = 'mainspring.jobs'::regclass

-- name: changes
-- A transaction that one snapshot does not see and a later one does either was open in the first or is newer
-- than it. So said, the index finds them, however many rows lie behind a transaction that stays open. A row
-- that an older transaction than its own has written came with a dump of another cluster, and is no news here
-- when its id comes round: that is not its `own`.
select seq, op, changed_at, job_id,
       (after).key, (after).every_s, (after).cron, (after).run_at, (after).tz, (after).phase_s,
       (after).jitter_s, (after).starts_at, (after).ends_at, (after).boost_every_s, (after).boost_until,
       (after).catch_up, (after).first_run_soon, (after).enabled, (after).route, (after).payload
from mainspring.job_changes
where (xid >= '{first_new}' and xid < '{end}' or xid = any('{{{were_open}}}'))
  and pg_visible_in_snapshot(xid, '{upto}')
  and (xmin = xid::xid or {own})
order by seq

-- name: undo
select 0::bigint as seq, case when op = 'insert' then 'delete' else 'load' end as op,
       to_timestamp(0) as changed_at, job_id,
       (before).key, (before).every_s, (before).cron, (before).run_at, (before).tz, (before).phase_s,
       (before).jitter_s, (before).starts_at, (before).ends_at, (before).boost_every_s, (before).boost_until,
       (before).catch_up, (before).first_run_soon, (before).enabled, (before).route, (before).payload
from (
    select distinct on (job_id) op, changed_at, job_id, before
    from mainspring.job_changes
    where (xid >= '{first_new}' and xid < '{end}' or xid = any('{{{were_open}}}'))
      and pg_visible_in_snapshot(xid, '{upto}')
      and (xmin = xid::xid or {own})
      and op in ('insert', 'update', 'delete')
    order by job_id, seq
) as first_change

-- name: newcomers
-- Of the jobs that came within the span and ask for a first run soon: their insert, and all that followed it.
with span as materialized (
    select seq, op, changed_at, job_id, after
    from mainspring.job_changes
    where (xid >= '{first_new}' and xid < '{end}' or xid = any('{{{were_open}}}'))
      and pg_visible_in_snapshot(xid, '{upto}')
      and (xmin = xid::xid or {own})
      and op in ('insert', 'update', 'delete')
)
select 0::bigint as seq, case when op = 'delete' then op else 'load' end as op,
       case when op = 'insert' then changed_at else to_timestamp(0) end as changed_at, job_id,
       (after).key, (after).every_s, (after).cron, (after).run_at, (after).tz, (after).phase_s,
       (after).jitter_s, (after).starts_at, (after).ends_at, (after).boost_every_s, (after).boost_until,
       (after).catch_up, (after).first_run_soon, (after).enabled, (after).route, (after).payload
from span join (
    select job_id, max(seq) as since from span where op = 'insert' and (after).first_run_soon group by job_id
) as inserted using (job_id)
where seq >= since
order by seq

-- name: own
-- Written by a savepoint of it, which is younger. Both are counted modulo 2^32.
(xmin::text::bigint - (xid::text::bigint & 4294967295)) & 4294967295 < 2147483648

-- name: lock_schema
select pg_advisory_xact_lock(7307226101126115)

-- name: create_schema
create schema if not exists mainspring;
create table if not exists mainspring.schema_versions (
    version integer primary key,
    name text not null,
    applied_at timestamptz not null default now(),
    applied_by text not null default session_user
)

-- name: schema_version
select coalesce(max(version), 0) from mainspring.schema_versions

-- name: record_version
insert into mainspring.schema_versions (version, name) values ($1, $2)

-- name: purge_future_changes
-- A restored dump brings the transaction ids of another cluster. A row that this statement sees and whose
-- transaction its snapshot does not is one of those, and would be taken for news when that id comes round.
delete from mainspring.job_changes
where xid >= pg_snapshot_xmin(pg_current_snapshot()) and not pg_visible_in_snapshot(xid, pg_current_snapshot())

-- name: status
select (select count(*) from mainspring.jobs) as jobs,
       (select count(*) from mainspring.jobs where not enabled) as paused,
       (select count(*) from mainspring.job_changes) as changes,
       (select max(seq) from mainspring.job_changes) as last_seq,
       (select changed_at from mainspring.job_changes order by xid, seq limit 1) as oldest_change_at,
       (select changed_at from mainspring.job_changes order by xid desc, seq desc limit 1) as newest_change_at,
       pg_total_relation_size('mainspring.jobs') as jobs_bytes,
       pg_total_relation_size('mainspring.job_changes') as changes_bytes

-- name: prunings
select before::text::bigint as pruned_before, rows_removed as pruned_rows, pruned_at from mainspring.prunings

-- name: pruned_before
select before::text::bigint from mainspring.prunings

-- name: lock_pruning
select pg_try_advisory_lock(7307226101126116)

-- name: pruning_limits
-- Nothing that ends later than this statement's snapshot: what is older can grow no more.
select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as oldest_open,
       clock_timestamp() - make_interval(secs => $1) as older_than

-- name: keep_last_rows
-- What pruning leaves of the rows that nobody needs: the last one of each job.
create temporary table pruning_keeps as
select distinct on (job_id) seq
from mainspring.job_changes
where xid < $1::text::xid8 and changed_at < $2
order by job_id, seq desc

-- name: index_kept_rows
create unique index on pg_temp.pruning_keeps (seq);
analyze pg_temp.pruning_keeps

-- name: prune_some
-- In the order of the index, from where the batch before ended. Marked in the same transaction.
with candidates as (
    select xid, seq from mainspring.job_changes
    where (xid, seq) > ($1::text::xid8, $2) and xid < $3::text::xid8
    order by xid, seq limit $5
),
removed as (
    delete from mainspring.job_changes as old using candidates
    where old.xid = candidates.xid and old.seq = candidates.seq and old.changed_at < $4
      and not exists (select from pg_temp.pruning_keeps as kept where kept.seq = old.seq)
    returning old.xid
),
marked as (
    update mainspring.prunings
    set before = greatest(before, ((select xid from removed order by xid desc limit 1)::text::bigint + 1)::text::xid8),
        pruned_at = clock_timestamp(),
        rows_removed = rows_removed + (select count(*) from removed)
    where exists (select from removed)
)
select (select count(*) from removed) as removed,
       (select count(*) from candidates) as looked_at,
       last.xid::text::bigint as last_xid, last.seq as last_seq
from (select xid, seq from candidates order by xid desc, seq desc limit 1) as last

-- name: lag
-- How much of the log a reader at this snapshot has not seen.
select count(*) as rows, min(changed_at) as since
from mainspring.job_changes
where (xid >= '{first_new}' or xid = any('{{{were_open}}}')) and (xmin = xid::xid or {own})
