-- Named queries. Words in braces are filled in by the caller with checked literals: COPY takes no parameters.

-- name: server
select current_setting('server_version_num')::int as version,
       current_setting('server_version') as version_text,
       current_setting('server_encoding') as encoding,
       pg_is_in_recovery() as in_recovery,
       to_regclass('mainspring.schema_versions') is not null as has_schema

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

-- name: jobs
select id, key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s, boost_until,
       catch_up, first_run_soon, enabled, route, payload
from mainspring.jobs

-- name: changes
-- A transaction that one snapshot does not see and a later one does either was open in the first or is newer
-- than it. So said, the index finds them, however many rows lie behind a transaction that stays open.
select seq, op, changed_at, job_id,
       (after).key, (after).every_s, (after).cron, (after).run_at, (after).tz, (after).phase_s,
       (after).jitter_s, (after).starts_at, (after).ends_at, (after).boost_every_s, (after).boost_until,
       (after).catch_up, (after).first_run_soon, (after).enabled, (after).route, (after).payload
from mainspring.job_changes
where (xid >= '{first_new}' and xid < '{end}' or xid = any('{{{were_open}}}'))
  and pg_visible_in_snapshot(xid, '{upto}')
order by seq

-- name: undo
select 0::bigint as seq, case when op = 'insert' then 'delete' else 'load' end as op, changed_at, job_id,
       (before).key, (before).every_s, (before).cron, (before).run_at, (before).tz, (before).phase_s,
       (before).jitter_s, (before).starts_at, (before).ends_at, (before).boost_every_s, (before).boost_until,
       (before).catch_up, (before).first_run_soon, (before).enabled, (before).route, (before).payload
from (
    select distinct on (job_id) op, changed_at, job_id, before
    from mainspring.job_changes
    where (xid >= '{first_new}' and xid < '{end}' or xid = any('{{{were_open}}}'))
      and pg_visible_in_snapshot(xid, '{upto}')
      and op in ('insert', 'update', 'delete')
    order by job_id, seq
) as first_change

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
       (select changed_at from mainspring.job_changes order by seq limit 1) as oldest_change_at,
       (select changed_at from mainspring.job_changes order by seq desc limit 1) as newest_change_at,
       pg_total_relation_size('mainspring.jobs') as jobs_bytes,
       pg_total_relation_size('mainspring.job_changes') as changes_bytes
