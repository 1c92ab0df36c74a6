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
