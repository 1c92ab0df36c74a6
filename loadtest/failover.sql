-- name: sow
-- Intervals of all catch-up policies, a twentieth of them cron jobs; a hash of the number draws, so that a fleet
-- is the same every time. $3: bytes of payload. The first $4 are brisk, the others come a few times a day.
insert into mainspring.jobs (every_s, cron, catch_up, payload)
select case when n % 20 > 0 and n <= $4 then (array[5, 10, 15, 30, 30, 60, 60, 60, 60, 300])[1 + (n * 7919) % 10]
            when n % 20 > 0 then (array[1800, 3600, 7200, 43200, 86400])[1 + (n * 7919) % 5] end,
       case when n % 20 = 0 and n <= $4 then (array['* * * * *', '*/2 * * * *', 'H/3 * * * *', '*/10 * * * * *'])[1 + n / 20 % 4]
            when n % 20 = 0 then (array['H * * * *', 'H H/6 * * *', 'H H * * *'])[1 + n / 20 % 3] end,
       ($2::text[])[1 + n % cardinality($2)], jsonb_build_object('text', repeat('x', $3::integer))
from generate_series(1, $1::bigint) as n

-- name: any_job
-- From a place drawn in advance: to sort by random() would read the table for each change.
select id from mainspring.jobs where id >= $1 and enabled = $2 order by id limit 1

-- name: last_id
select coalesce(max(id), 0) from mainspring.jobs

-- name: add
insert into mainspring.jobs (every_s, catch_up, first_run_soon) values ($1, $2, $3)

-- name: add_once
insert into mainspring.jobs (run_at, catch_up) values (to_timestamp($1), $2)

-- name: edit
update mainspring.jobs set every_s = $2, cron = null where id = $1 and run_at is null

-- name: boost
update mainspring.jobs set boost_every_s = 5, boost_until = to_timestamp($2) where id = $1 and run_at is null

-- name: policy
update mainspring.jobs set catch_up = $2 where id = $1

-- name: pause
update mainspring.jobs set enabled = false where id = $1

-- name: resume
update mainspring.jobs set enabled = true where id = $1

-- name: delete
delete from mainspring.jobs where id = $1
