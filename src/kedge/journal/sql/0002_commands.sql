-- What is asked of runs from outside, in the order of its arrival. Requests and decisions are bytes, and no part
-- of a run's log. crc covers all but the decision. A position is never given twice: readers go on from the last.
create table command (
    position integer primary key autoincrement,
    run integer not null,
    id text not null,
    port integer not null,
    at integer not null,
    data blob not null,
    crc integer not null,
    decision blob,
    decision_crc integer,
    unique (run, id)
);
create index command_undecided on command (run, position) where decision is null;

-- Where whoever drives the run listens, on the loopback of its machine; 0: nowhere.
alter table lease add column port integer not null default 0;
