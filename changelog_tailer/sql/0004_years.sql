-- Postgres counts from 4713 BC to 294276, files, calendars and drivers from 1 to 9999. What lies outside could
-- be stored and never be exported, imported or shown, and no job can mean it.
-- Not valid: what is stored already stays, and is refused with its next edit.
alter table mainspring.jobs add constraint jobs_years_are_1_to_9999 check (
    least(run_at, starts_at, ends_at, boost_until) >= '0001-01-01 00:00:00Z'
    and greatest(run_at, starts_at, ends_at, boost_until) < '10000-01-01 00:00:00Z'
) not valid;
