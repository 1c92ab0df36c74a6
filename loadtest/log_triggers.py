"""The triggers that write the change log, off and on again: what is written meanwhile stands in no log."""

import asyncpg

_SWITCH = """
do $$
declare name text;
begin
    for name in
        select tgname from pg_trigger where tgrelid = 'mainspring.jobs'::regclass and tgname like 'log_%'
    loop
        execute format('alter table mainspring.jobs {verb} trigger %I', name);
    end loop;
end
$$
"""


async def switch_log(connection: asyncpg.Connection, *, on: bool) -> None:
    """For every session of this database; needs the owner of the table."""
    await connection.execute(_SWITCH.format(verb="enable" if on else "disable"))
