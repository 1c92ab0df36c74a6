-- The sample jobs are those whose key starts with demo/; jobs of anybody else in the same table are left alone.

-- name: stage
create temporary table demo_fleet (
    key text primary key, every_s integer, cron text, tz text not null, run_at timestamptz,
    route text not null, payload jsonb not null
) on commit drop

-- name: trim
delete from mainspring.jobs
where starts_with(key, 'demo/') and not exists (select from demo_fleet where demo_fleet.key = jobs.key)

-- name: upsert
insert into mainspring.jobs as old (key, every_s, cron, tz, run_at, route, payload)
select key, every_s, cron, tz, run_at, route, payload from demo_fleet
on conflict (key) do update
set every_s = excluded.every_s, cron = excluded.cron, tz = excluded.tz, run_at = excluded.run_at,
    route = excluded.route, payload = excluded.payload, enabled = true
where (old.every_s, old.cron, old.tz, old.run_at, old.route, old.payload, old.enabled)
    is distinct from
    (excluded.every_s, excluded.cron, excluded.tz, excluded.run_at, excluded.route, excluded.payload, true)
