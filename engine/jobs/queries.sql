-- Every statement of the jobs commands, by name. Instants are written by sessions whose TimeZone is UTC.

-- name: columns_of_a_job
id, key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s, boost_until,
catch_up, first_run_soon, enabled, route, payload

-- name: insert
insert into mainspring.jobs ({columns}) values ({values})
returning {all_columns}, created_at, updated_at

-- name: update
update mainspring.jobs set {assignments} where id = $1
returning {all_columns}, created_at, updated_at

-- name: find
-- An id wins over a key that looks like one ("-5" may be both).
select {all_columns}, created_at, updated_at from mainspring.jobs
where id = $1 or key = $2
order by id = $1 desc
limit 1

-- name: find_for_update
select {all_columns}, created_at, updated_at from mainspring.jobs
where id = $1 or key = $2
order by id = $1 desc
limit 1
for update

-- name: first_change_since
-- The first change of a job after an instant: what it was before that change held at the instant. Pruning leaves
-- of a job's old rows the newest alone, so only the oldest row that is left can hide others.
select op, changed_at, (before).*,
       case when not exists (select from mainspring.job_changes as earlier
                             where earlier.job_id = $1 and earlier.seq < change.seq)
            then (select pruned_at from mainspring.prunings) end as pruned_at
from mainspring.job_changes as change
where job_id = $1 and changed_at > $2
order by seq
limit 1

-- name: set_enabled
-- Jobs that are so already are left alone.
update mainspring.jobs set enabled = $2 where id = any($1::bigint[]) and enabled <> $2
returning id

-- name: remove
delete from mainspring.jobs where id = any($1::bigint[])
returning id

-- name: list
select {all_columns}, created_at, updated_at from mainspring.jobs
where ($1::text is null or route = $1)
  and ($2::text is null or $2 = case when every_s is not null then 'interval'
                                     when cron is not null then 'cron' else 'once' end)
  and ($3::boolean is null or enabled = $3)
order by id
limit $4

-- name: widen_memory
-- Until the commit. What sorts, joins and the log's trigger hold of a million rows need not go by the disk.
select set_config('work_mem', '64MB', true) where pg_size_bytes(current_setting('work_mem')) < pg_size_bytes('64MB')

-- name: create_stage
create temporary table job_import (
    line bigint not null,
    id bigint,
    key text,
    every_s integer,
    cron text,
    run_at timestamptz,
    tz text,
    phase_s integer,
    jitter_s integer,
    starts_at timestamptz,
    ends_at timestamptz,
    boost_every_s integer,
    boost_until timestamptz,
    catch_up text,
    first_run_soon boolean,
    enabled boolean,
    route text,
    payload jsonb
) on commit drop

-- name: analyze_stage
analyze pg_temp.job_import (line, id, key)

-- name: conflicts_in_file
-- The first line that names an id or a key keeps it, later ones are refused.
select later.line, 'id' as field, later.id::text as value, earlier.line as first_line
from pg_temp.job_import later
join (select id, min(line) as line from pg_temp.job_import where id is not null
      group by id having count(*) > 1) earlier on earlier.id = later.id and earlier.line < later.line
union all
select later.line, 'key', later.key, earlier.line
from pg_temp.job_import later
join (select key, min(line) as line from pg_temp.job_import where key is not null
      group by key having count(*) > 1) earlier on earlier.key = later.key and earlier.line < later.line

-- name: conflicts_with_table
-- A key that is another job's, and a job that is named by its id on one line and by its key on another.
select staged.line, staged.key, jobs.id as owner, null::bigint as first_line
from pg_temp.job_import staged
join mainspring.jobs on jobs.key = staged.key and jobs.id <> staged.id
union all
select staged.line, staged.key, jobs.id, by_id.line
from pg_temp.job_import staged
join mainspring.jobs on jobs.key = staged.key
join pg_temp.job_import by_id on by_id.id = jobs.id
where staged.id is null

-- name: drop_lines
delete from pg_temp.job_import where line = any($1::bigint[])

-- name: create_match
create temporary table job_import_match (line bigint not null, job_id bigint not null, changed boolean not null)
on commit drop

-- name: match
-- Which lines meet a job that exists, and whether they change it. Images are compared, not values, as the
-- change log does: to jsonb 1.0 and 1 are equal, to the text in an event they are not.
insert into pg_temp.job_import_match
select staged.line, jobs.id,
       row(jobs.key, jobs.every_s, jobs.cron, jobs.run_at, jobs.tz, jobs.phase_s, jobs.jitter_s, jobs.starts_at,
        jobs.ends_at, jobs.boost_every_s, jobs.boost_until, jobs.catch_up, jobs.first_run_soon,
        jobs.enabled, jobs.route, jobs.payload)::mainspring.definition
       *<>
       row(staged.key, staged.every_s, staged.cron, staged.run_at, staged.tz, staged.phase_s, staged.jitter_s,
        staged.starts_at, staged.ends_at, staged.boost_every_s, staged.boost_until, staged.catch_up,
        staged.first_run_soon, coalesce(staged.enabled, jobs.enabled), staged.route,
        staged.payload)::mainspring.definition
from pg_temp.job_import staged join mainspring.jobs on {meets}

-- name: meets_by_id
jobs.id = staged.id

-- name: meets_by_key
staged.id is null and jobs.key = staged.key

-- name: count_match
select count(*) filter (where changed) as changed, count(*) filter (where not changed) as unchanged
from pg_temp.job_import_match

-- name: count_stage
select count(*) from pg_temp.job_import

-- name: update_matched
-- A line that does not say `enabled` leaves a paused job paused.
update mainspring.jobs set
    key = staged.key, every_s = staged.every_s, cron = staged.cron, run_at = staged.run_at, tz = staged.tz,
    phase_s = staged.phase_s, jitter_s = staged.jitter_s, starts_at = staged.starts_at,
    ends_at = staged.ends_at, boost_every_s = staged.boost_every_s, boost_until = staged.boost_until,
    catch_up = staged.catch_up, first_run_soon = staged.first_run_soon,
    enabled = coalesce(staged.enabled, jobs.enabled), route = staged.route, payload = staged.payload
from pg_temp.job_import_match matched
join pg_temp.job_import staged on staged.line = matched.line
where matched.changed and jobs.id = matched.job_id

-- name: insert_with_id
insert into mainspring.jobs (id, key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at,
    boost_every_s, boost_until, catch_up, first_run_soon, enabled, route, payload)
select id, key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at,
    boost_every_s, boost_until, catch_up, first_run_soon, coalesce(enabled, true), route, payload
from pg_temp.job_import staged
where id is not null and not exists (select from pg_temp.job_import_match matched where matched.line = staged.line)

-- name: insert_without_id
insert into mainspring.jobs (key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at,
    boost_every_s, boost_until, catch_up, first_run_soon, enabled, route, payload)
select key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at,
    boost_every_s, boost_until, catch_up, first_run_soon, coalesce(enabled, true), route, payload
from pg_temp.job_import staged
where id is null and not exists (select from pg_temp.job_import_match matched where matched.line = staged.line)
order by line

-- name: advance_identity
-- The identity goes past the ids that the file brought. Ids from 2^62 on are taken for hashes of the
-- caller's own: no sequence counts that far, and one set there would soon be exhausted. A short way is
-- walked with nextval, which cannot step back over ids drawn by others meanwhile; a long one is jumped.
with identity as (
    select pg_get_serial_sequence('mainspring.jobs', 'id')::regclass as name,
           (select max(id) from pg_temp.job_import where id between 1 and 4611686018427387903) as wanted,
           (select coalesce(last_value, start_value - 1) from pg_sequences
            where format('%I.%I', schemaname, sequencename) = pg_get_serial_sequence('mainspring.jobs', 'id'))
               as reached
)
select case when wanted - reached > 10000 then setval(name, wanted)
            else (select max(drawn) from (select nextval(name) as drawn
                                          from generate_series(1, wanted - reached)) as walk) end
from identity
where wanted > reached

-- name: export_jsonl
-- One JSON text a row; a field that holds its default is left out, `enabled` never is. `concat` drops nulls.
select concat('{"id": ', id,
    ', "key": ' || to_json(key)::text,
    ', "every_s": ' || every_s,
    ', "cron": ' || to_json(cron)::text,
    ', "run_at": ' || to_json(run_at)::text,
    ', "tz": ' || to_json(nullif(tz, 'UTC'))::text,
    ', "phase_s": ' || phase_s,
    ', "jitter_s": ' || jitter_s,
    ', "starts_at": ' || to_json(starts_at)::text,
    ', "ends_at": ' || to_json(ends_at)::text,
    ', "boost_every_s": ' || boost_every_s,
    ', "boost_until": ' || to_json(boost_until)::text,
    ', "catch_up": ' || to_json(nullif(catch_up, 'all'))::text,
    case when first_run_soon then ', "first_run_soon": true' end,
    ', "enabled": ' || to_json(enabled)::text,
    ', "route": ' || to_json(nullif(route, 'default'))::text,
    ', "payload": ' || payload::text,
    '}')
from mainspring.jobs order by id

-- name: export_csv
select id, key, every_s, cron, to_json(run_at) #>> '{}' as run_at, tz, phase_s, jitter_s,
    to_json(starts_at) #>> '{}' as starts_at, to_json(ends_at) #>> '{}' as ends_at,
    boost_every_s, to_json(boost_until) #>> '{}' as boost_until,
    catch_up, first_run_soon, enabled, route, payload
from mainspring.jobs order by id

-- name: count_jobs
select count(*) from mainspring.jobs

-- name: distinct_crons
select cron, tz, count(*) as jobs, min(id) as example from mainspring.jobs where cron is not null group by cron, tz
