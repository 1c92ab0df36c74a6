-- What a write costs beside the write itself: the condition of a trigger is parsed anew for each statement, a
-- PERFORM starts an executor, and each index is one more page to lock. None of that has to be.

-- Writers lock the jobs first and then the log; so does this, or the two would wait for each other.
lock table mainspring.jobs in access exclusive mode;

-- One index serves readers, who go by xid, and pruning.
create unique index job_changes_by_transaction on mainspring.job_changes (xid, seq);
alter table mainspring.job_changes drop constraint job_changes_pkey;
alter table mainspring.job_changes add constraint job_changes_pkey
primary key using index job_changes_by_transaction;
drop index mainspring.job_changes_xid;

-- The columns are named because a whole-row comparison would also see columns that users generate. Images are
-- compared, not values: to jsonb 1.0 and 1 are equal, to the text in an event they are not.
create or replace function mainspring.touch_job() returns trigger
language plpgsql as $$
begin
    if row(old.key, old.every_s, old.cron, old.run_at, old.tz, old.phase_s, old.jitter_s, old.starts_at,
           old.ends_at, old.boost_every_s, old.boost_until, old.catch_up, old.first_run_soon, old.enabled,
           old.route, old.payload)::mainspring.definition
       operator(pg_catalog.*<>)
       row(new.key, new.every_s, new.cron, new.run_at, new.tz, new.phase_s, new.jitter_s, new.starts_at,
           new.ends_at, new.boost_every_s, new.boost_until, new.catch_up, new.first_run_soon, new.enabled,
           new.route, new.payload)::mainspring.definition
       or row(old.id, old.created_at, old.updated_at)
          is distinct from row(new.id, new.created_at, new.updated_at)
    then
        new.created_at := old.created_at;
        new.updated_at := pg_catalog.now();
    end if;
    return new;
end
$$;

drop trigger touch_job on mainspring.jobs;
create trigger touch_job before update on mainspring.jobs for each row execute function mainspring.touch_job();
alter table mainspring.jobs enable always trigger touch_job;

-- Whether readers may sleep. In an IF it is a plain expression, for which no executor starts.
create function mainspring.wake_is_due() returns boolean
language plpgsql as $$
begin
    return (extract(epoch from clock_timestamp()) * 1000)::bigint
           - coalesce(pg_sequence_last_value('mainspring.last_wake_ms'), 0) not between 0 and 19
        or clock_timestamp() - now() >= interval '20 ms';  -- a long transaction commits when nobody looks
end
$$;

create or replace function mainspring.wake_readers() returns void
language plpgsql as $$
begin
    perform setval('mainspring.last_wake_ms', (extract(epoch from clock_timestamp()) * 1000)::bigint);
    notify mainspring_changes;
end
$$;

create or replace function mainspring.log_inserted_jobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, after)
    select 'insert', id,
           row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
               boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
    from new_jobs;
    if found and mainspring.wake_is_due() then
        perform mainspring.wake_readers();
    end if;
    return null;
end
$$;

-- Updates are logged row by row. For one row that costs half of what two transition tables and their join cost,
-- and most updates are of one row; an update of a million takes twice as long. What changes nothing appends nothing.
drop trigger log_updated_jobs on mainspring.jobs;
drop function mainspring.log_updated_jobs();

create function mainspring.log_updated_job() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if old.id <> new.id then
        perform mainspring.log_move(old, new);
    elsif row(old.key, old.every_s, old.cron, old.run_at, old.tz, old.phase_s, old.jitter_s,
              old.starts_at, old.ends_at, old.boost_every_s, old.boost_until, old.catch_up,
              old.first_run_soon, old.enabled, old.route, old.payload)::mainspring.definition
          *<> row(new.key, new.every_s, new.cron, new.run_at, new.tz, new.phase_s, new.jitter_s,
              new.starts_at, new.ends_at, new.boost_every_s, new.boost_until, new.catch_up,
              new.first_run_soon, new.enabled, new.route, new.payload)::mainspring.definition
    then
        insert into mainspring.job_changes (op, job_id, before, after) values (
            'update', new.id,
            row(old.key, old.every_s, old.cron, old.run_at, old.tz, old.phase_s, old.jitter_s,
                old.starts_at, old.ends_at, old.boost_every_s, old.boost_until, old.catch_up,
                old.first_run_soon, old.enabled, old.route, old.payload)::mainspring.definition,
            row(new.key, new.every_s, new.cron, new.run_at, new.tz, new.phase_s, new.jitter_s,
                new.starts_at, new.ends_at, new.boost_every_s, new.boost_until, new.catch_up,
                new.first_run_soon, new.enabled, new.route, new.payload)::mainspring.definition);
    else
        return null;
    end if;
    if mainspring.wake_is_due() then
        perform mainspring.wake_readers();
    end if;
    return null;
end
$$;

-- A changed id is the end of one job and the start of another. Ids may move up by one, so all the ends of a
-- statement have to stand before its starts: they are logged before the first row is changed.
create function mainspring.log_end_of_moving_job() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    if old.id <> new.id then
        insert into mainspring.job_changes (op, job_id, before) values (
            'delete', old.id,
            row(old.key, old.every_s, old.cron, old.run_at, old.tz, old.phase_s, old.jitter_s,
                old.starts_at, old.ends_at, old.boost_every_s, old.boost_until, old.catch_up,
                old.first_run_soon, old.enabled, old.route, old.payload)::mainspring.definition);
    end if;
    return new;
end
$$;

create function mainspring.log_move(old mainspring.jobs, new mainspring.jobs) returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
begin
    -- An id that another trigger has changed was not announced.
    if not exists (select from mainspring.job_changes
                   where xid = pg_current_xact_id() and op = 'delete' and job_id = old.id)
    then
        insert into mainspring.job_changes (op, job_id, before) values (
            'delete', old.id,
            row(old.key, old.every_s, old.cron, old.run_at, old.tz, old.phase_s, old.jitter_s,
                old.starts_at, old.ends_at, old.boost_every_s, old.boost_until, old.catch_up,
                old.first_run_soon, old.enabled, old.route, old.payload)::mainspring.definition);
    end if;
    insert into mainspring.job_changes (op, job_id, after) values (
        'insert', new.id,
        row(new.key, new.every_s, new.cron, new.run_at, new.tz, new.phase_s, new.jitter_s,
            new.starts_at, new.ends_at, new.boost_every_s, new.boost_until, new.catch_up,
            new.first_run_soon, new.enabled, new.route, new.payload)::mainspring.definition);
end
$$;

-- Another trigger may have kept a row from moving after its end was logged: that job goes on.
create function mainspring.log_jobs_that_stayed() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, after)
    select 'insert', id,
           row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
               boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
    from mainspring.jobs
    where id in (
        select job_id
        from (select distinct on (job_id) job_id, op from mainspring.job_changes
              where xid = pg_current_xact_id() order by job_id, seq desc) as newest
        where op = 'delete');
    return null;
end
$$;

create trigger log_updated_job after update on mainspring.jobs
for each row execute function mainspring.log_updated_job();

create trigger log_end_of_moving_job before update of id on mainspring.jobs
for each row execute function mainspring.log_end_of_moving_job();

create trigger log_jobs_that_stayed after update of id on mainspring.jobs
for each statement execute function mainspring.log_jobs_that_stayed();

alter table mainspring.jobs enable always trigger log_updated_job;
alter table mainspring.jobs enable always trigger log_end_of_moving_job;
alter table mainspring.jobs enable always trigger log_jobs_that_stayed;

create or replace function mainspring.log_deleted_jobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, before)
    select 'delete', id,
           row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
               boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
    from old_jobs;
    if found and mainspring.wake_is_due() then
        perform mainspring.wake_readers();
    end if;
    return null;
end
$$;
