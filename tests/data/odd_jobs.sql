-- Jobs at the edges of every column, for whoever must carry them unchanged.

insert into mainspring.jobs (
    id, key, every_s, cron, run_at, tz, phase_s, jitter_s, starts_at, ends_at, boost_every_s, boost_until,
    catch_up, first_run_soon, enabled, route, payload
) values
    (-9223372036854775808, null, 1, null, null, 'UTC', null, null, null, null, null, null,
     'all', false, true, 'default', null),
    (9223372036854775807, E'tab\tquote"comma,\nback\\slash', 2147483647, null, null, 'UTC', 7, null,
     '2026-01-01 00:00:00.000001Z', '9999-12-31 23:59:59.999999Z', 5, '2026-06-01 12:00:00+05:30',
     'none', true, false, 'a.b-c._d', 'null'),
    (3, 'ünïcödé 🕰', null, '*/5 9-17 * * MON-FRI', null, 'Europe/Vienna', null, 0, '0001-01-01Z', null, null, null,
     'latest', false, true, 'r',
     '{"text": "a\"b\\c\n\u0001 é", "n": [1.10, 1e2, -0.0, 12345678901234567890.1], "deep": {"o": {}, "l": [null]}}'),
    (4, '\N', null, null, '2038-01-19 03:14:08.5Z', 'UTC', null, null, null, null, null, null,
     'all', false, true, 'default', '"\\."'),
    (5, ' ', 5, null, null, 'UTC', 0, 5, null, null, null, null, 'all', true, true, 'default', '[]');
