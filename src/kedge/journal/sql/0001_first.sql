-- The tables of a journal. application_id is "kedg": a file without it is not ours.
pragma application_id = 1801806951;

-- One row for each run. crc covers the row (but for key and damaged), for a flipped byte in it.
create table run (
    key integer primary key,
    crc integer not null,
    run_id text not null unique,
    seq integer not null,
    chain integer not null,
    epoch integer not null,
    headline blob not null,
    created_at integer not null,
    updated_at integer not null,
    bytes integer not null,
    damaged text not null default ''
);

-- id = run.key << 32 | seq. One integer key makes rows a quarter smaller and appends a third faster
-- than (run, seq) without rowid did, and keeps the events of a run together all the same.
create table event (
    id integer primary key,
    epoch integer not null,
    at integer not null,
    data blob not null,
    chain integer not null
);

create table blob (
    key integer primary key,
    sha blob not null unique,
    data blob not null
);

-- Which run refers to which blob: a blob without a row here is garbage.
create table blob_ref (
    run integer not null,
    blob integer not null,
    primary key (run, blob)
) without rowid;
create index blob_ref_by_blob on blob_ref (blob);

-- The process that holds a run's lock. A row without a lock is what a killed one left.
create table lease (
    run integer primary key,
    host text not null,
    pid integer not null,
    boot text not null,
    started text not null,
    since integer not null
);
