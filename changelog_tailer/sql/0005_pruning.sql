-- Up to where the log has been pruned. A reader whose snapshot does not see every transaction below `before`
-- may lack changes: its cursor is void.
create table mainspring.prunings (
    only_row boolean primary key default true check (only_row),
    before xid8 not null default '0',
    pruned_at timestamptz,
    rows_removed bigint not null default 0
);

insert into mainspring.prunings default values;

comment on table mainspring.prunings is 'One row: what `mainspring db prune` has removed from mainspring.job_changes.';
