-- Named queries of an audit. Words in braces are filled in with whole numbers: COPY takes no parameters.
-- All of them are read in one repeatable read transaction, so that table and log agree.

-- name: changes
-- In the place of seq stands when the row's transaction was last seen at work (epoch microseconds): its commit,
-- and with it the change's effect, came no earlier.
with recent as (
    select * from mainspring.job_changes
    where xid in (select xid from mainspring.job_changes where changed_at >= to_timestamp({since}))
)
select (extract(epoch from max(changed_at) over (partition by xid)) * 1000000)::bigint, op, changed_at, job_id,
       (after).key, (after).every_s, (after).cron, (after).run_at, (after).tz, (after).phase_s,
       (after).jitter_s, (after).starts_at, (after).ends_at, (after).boost_every_s, (after).boost_until,
       (after).catch_up, (after).first_run_soon, (after).enabled, (after).route, null::jsonb
from recent
where op in ('insert', 'update', 'delete')
order by seq

-- name: before_changes
-- What each changed job was before the first of those changes; a job that was not there is a delete.
with recent as (
    select * from mainspring.job_changes
    where xid in (select xid from mainspring.job_changes where changed_at >= to_timestamp({since}))
)
select 0::bigint, case when op = 'insert' then 'delete' else 'load' end, changed_at, job_id,
       (before).key, (before).every_s, (before).cron, (before).run_at, (before).tz, (before).phase_s,
       (before).jitter_s, (before).starts_at, (before).ends_at, (before).boost_every_s, (before).boost_until,
       (before).catch_up, (before).first_run_soon, (before).enabled, (before).route, null::jsonb
from (
    select distinct on (job_id) op, changed_at, job_id, before
    from recent
    where op in ('insert', 'update', 'delete')
    order by job_id, seq
) as first_change

-- name: jobs
select id, null::text, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
       boost_until, catch_up, first_run_soon, enabled, route, null::jsonb
from mainspring.jobs

-- name: pruned
-- Pruning goes in the order of transactions: where the first row behind it is older than the span, so was
-- everything that it took.
select rows_removed > 0 as pruned, extract(epoch from pruned_at)::float8 as pruned_at,
       (select extract(epoch from changed_at)::float8 from mainspring.job_changes
        where xid >= (select before from mainspring.prunings) order by xid, seq limit 1) as whole_from
from mainspring.prunings
