-- Two roles, to be granted to the users in question: engines may read and nothing else; those who write jobs need
-- not know what others wrote, so the log is closed to them, and its triggers are not.
--     grant mainspring_engine to some_user;
-- Repeated with every db init, so that tables of later versions are covered.

do $$
declare role name;
begin
    if not exists (select from pg_roles where rolname = current_user and (rolcreaterole or rolsuper)) then
        return;
    end if;
    foreach role in array array['mainspring_engine', 'mainspring_writer'] loop
        if not exists (select from pg_roles where rolname = role) then
            begin
                execute format('create role %I nologin', role);
            exception
                -- Roles belong to the whole cluster: another database's db init may have been first.
                when duplicate_object or unique_violation then null;
            end;
        end if;
    end loop;
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
