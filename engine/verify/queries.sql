-- Named queries of an audit. Words in braces are filled in with whole numbers: COPY takes no parameters.
-- All of them are read in one repeatable read transaction, so that table and log agree.

-- name: changes
-- From the first transaction that was at work since then. In the place of seq stands when the row's transaction
-- was last seen at work (epoch microseconds): its commit, and with it the change's effect, came no earlier.
-- In the order of the index, so that nothing of millions of rows is sorted or joined.
select (extract(epoch from max(changed_at) over transaction) * 1000000)::bigint, op, changed_at, job_id,
       (after).key, (after).every_s, (after).cron, (after).run_at, (after).tz, (after).phase_s,
       (after).jitter_s, (after).starts_at, (after).ends_at, (after).boost_every_s, (after).boost_until,
       (after).catch_up, (after).first_run_soon, (after).enabled, (after).route, null::jsonb
from mainspring.job_changes
where op in ('insert', 'update', 'delete')
  and xid >= (select xid from mainspring.job_changes where changed_at >= to_timestamp({since}) order by xid limit 1)
window transaction as (partition by xid order by seq rows between unbounded preceding and unbounded following)
order by xid, seq

-- name: before_changes
-- The same rows in the same order, with seq: what each job was before. One that was not there is a delete.
select seq, case when op = 'insert' then 'delete' else 'load' end, changed_at, job_id,
       (before).key, (before).every_s, (before).cron, (before).run_at, (before).tz, (before).phase_s,
       (before).jitter_s, (before).starts_at, (before).ends_at, (before).boost_every_s, (before).boost_until,
       (before).catch_up, (before).first_run_soon, (before).enabled, (before).route, null::jsonb
from mainspring.job_changes
where op in ('insert', 'update', 'delete')
  and xid >= (select xid from mainspring.job_changes where changed_at >= to_timestamp({since}) order by xid limit 1)
order by xid, seq

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
