-- A role for engines: it may read and nothing else. Grant it to the user in the engine's address:
--     grant mainspring_engine to some_user;
-- Repeated with every db init, so that tables of later versions are covered.

do $$
begin
    if not exists (select from pg_roles where rolname = 'mainspring_engine')
        and exists (select from pg_roles where rolname = current_user and (rolcreaterole or rolsuper))
    then
        create role mainspring_engine nologin;
    end if;
exception
    -- Roles belong to the whole cluster: another database's db init may have been first.
    when duplicate_object or unique_violation then null;
end
$$;

do $$
begin
    if exists (select from pg_roles where rolname = 'mainspring_engine') then
        grant usage on schema mainspring to mainspring_engine;
        grant select on all tables in schema mainspring to mainspring_engine;
    end if;
end
$$;

-- A role for those who write jobs and need not know what others wrote: the log is closed to it, its triggers are
-- not. Grant it in the same way.
do $$
begin
    if not exists (select from pg_roles where rolname = 'mainspring_writer')
        and exists (select from pg_roles where rolname = current_user and (rolcreaterole or rolsuper))
    then
        create role mainspring_writer nologin;
    end if;
exception
    when duplicate_object or unique_violation then null;
end
$$;

do $$
begin
    if exists (select from pg_roles where rolname = 'mainspring_writer') then
        grant usage on schema mainspring to mainspring_writer;
        grant select on mainspring.schema_versions to mainspring_writer;
        grant select, insert, update, delete on mainspring.jobs to mainspring_writer;
        -- An import draws ids itself, and moves the sequence past those that it brings.
        execute format('grant usage, select, update on sequence %s to mainspring_writer',
                       pg_get_serial_sequence('mainspring.jobs', 'id'));
    end if;
end
$$;
