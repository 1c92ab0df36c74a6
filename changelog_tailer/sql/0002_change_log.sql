-- Every change of a job, in the transaction that makes it. Rows are only ever appended.

-- seq orders the changes of one job: its row lock is held until the commit. Between jobs it says nothing,
-- commits come out of order. xid is what readers go by: it is visible to a snapshot or it is not.
create table mainspring.job_changes (
    seq bigint generated always as identity primary key,
    xid xid8 not null default pg_current_xact_id(),
    op text not null,
    job_id bigint,
    before mainspring.definition,
    after mainspring.definition,
    changed_at timestamptz not null default clock_timestamp(),
    changed_by text not null default session_user
);

create index job_changes_xid on mainspring.job_changes (xid);

comment on table mainspring.job_changes is 'Every change of mainspring.jobs: op is insert, update, delete or truncate.';
comment on column mainspring.job_changes.job_id is 'null for the truncate that ends the deletes of a TRUNCATE';

-- NOTIFY makes commits wait for each other and would cost busy writers half their throughput. Readers that were
-- woken go on looking for a while, so whoever comes within 20 ms of another's wake-up leaves it out. That is safe
-- to get wrong, as when the other rolls back: readers also poll. A sequence holds the time because it is
-- neither locked to the end of a transaction nor rolled back.
create sequence mainspring.last_wake_ms minvalue 0 start 0;

create function mainspring.wake_readers() returns void
language plpgsql set search_path = pg_catalog, pg_temp as $$
declare
    now_ms bigint := extract(epoch from clock_timestamp()) * 1000;
begin
    if now_ms - (select last_value from mainspring.last_wake_ms) between 0 and 19
        and clock_timestamp() - now() < interval '20 ms'  -- a long transaction commits when nobody looks
    then
        return;
    end if;
    perform setval('mainspring.last_wake_ms', now_ms);
    notify mainspring_changes;
end
$$;

-- The functions of the triggers run with the rights of the schema's owner: who may write jobs need not be able
-- to write to the log.

create function mainspring.log_inserted_jobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, after)
    select 'insert', id,
           row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
               boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
    from new_jobs;
    if found then
        perform mainspring.wake_readers();
    end if;
    return null;
end
$$;

-- A changed id is the end of one job and the start of another. What changes nothing appends nothing.
create function mainspring.log_updated_jobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, before, after)
    select case when was.definition is null then 'insert'
                when now.definition is null then 'delete'
                else 'update' end,
           id, was.definition, now.definition
    from (
        select id,
               row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
                   boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
                   as definition
        from old_jobs
    ) as was
    full join (
        select id,
               row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
                   boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
                   as definition
        from new_jobs
    ) as now using (id)
    where coalesce(was.definition *<> now.definition, true);
    if found then
        perform mainspring.wake_readers();
    end if;
    return null;
end
$$;

create function mainspring.log_deleted_jobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, before)
    select 'delete', id,
           row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
               boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
    from old_jobs;
    if found then
        perform mainspring.wake_readers();
    end if;
    return null;
end
$$;

-- Runs before the table is emptied and under its exclusive lock. The deletes say what each job was; the
-- truncate row after them also ends jobs that an older snapshot of a repeatable read transaction hides.
create function mainspring.log_truncated_jobs() returns trigger
language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
    insert into mainspring.job_changes (op, job_id, before)
    select 'delete', id,
           row(key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s,
               boost_until, catch_up, first_run_soon, enabled, route, payload)::mainspring.definition
    from mainspring.jobs;
    insert into mainspring.job_changes (op) values ('truncate');
    perform mainspring.wake_readers();
    return null;
end
$$;

create trigger log_inserted_jobs after insert on mainspring.jobs
referencing new table as new_jobs
for each statement execute function mainspring.log_inserted_jobs();

create trigger log_updated_jobs after update on mainspring.jobs
referencing old table as old_jobs new table as new_jobs
for each statement execute function mainspring.log_updated_jobs();

create trigger log_deleted_jobs after delete on mainspring.jobs
referencing old table as old_jobs
for each statement execute function mainspring.log_deleted_jobs();

create trigger log_truncated_jobs before truncate on mainspring.jobs
for each statement execute function mainspring.log_truncated_jobs();

-- Always: a session that replays another database's changes still changes these jobs.
alter table mainspring.jobs enable always trigger touch_job;
alter table mainspring.jobs enable always trigger log_inserted_jobs;
alter table mainspring.jobs enable always trigger log_updated_jobs;
alter table mainspring.jobs enable always trigger log_deleted_jobs;
alter table mainspring.jobs enable always trigger log_truncated_jobs;
