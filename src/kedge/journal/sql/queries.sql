-- name: find_run: A run's row by its id. Its name is taken from the table, not from the index.
select key, crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes, damaged
from run where key = (select key from run where run_id = ?);

-- name: find_run_in_table: The same without the index, for when that is damaged.
select key, crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes, damaged
from run where +run_id = ?;

-- name: find_key: A run's key from the index alone, for when its row is damaged.
select key from run where run_id = ?;

-- name: find_by_key: A run's row by its key.
select key, crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes, damaged
from run where key = ?;

-- name: list_runs: Every run's row, newest first (keys are given in order).
select key, crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes, damaged
from run order by key desc;

-- name: list_runs_marked: The runs whose line holds some bytes and lacks others, and those that are damaged.
select key, crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes, damaged
from run where damaged <> '' or (instr(headline, ?1) > 0 and (?2 = x'' or instr(headline, ?2) = 0))
order by key desc;

-- name: list_run_ids: Every run's id from the index alone, for when the table is damaged.
select run_id from run order by run_id;

-- name: add_run: A new run, without events.
insert into run (crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes)
values (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: move_head: Where the run stands after an append or a claim.
update run set crc = ?, seq = ?, chain = ?, epoch = ?, headline = ?, updated_at = ?, bytes = ? where key = ?;

-- name: move_head_from: Where the run stands after an append, if it stood where the driver left it.
update run set crc = ?, seq = ?, chain = ?, epoch = ?, headline = ?, updated_at = ?, bytes = ?
where key = ? and epoch = ? and seq = ? and chain = ?;

-- name: mark_damaged: What a read has found wrong with the run; empty when it read well again.
update run set damaged = ? where run_id = ?;

-- name: append_event: One event at the end of its run.
insert into event (id, epoch, at, data, chain) values (?, ?, ?, ?, ?);

-- name: read_events: A run's events by the range of their ids, in order.
select id & 4294967295, epoch, at, data, chain from event where id between ? and ? order by id;

-- name: event_link: Epoch and chain value of one event.
select epoch, chain from event where id = ?;

-- name: add_blob: A value under its hash, unless it is there.
insert into blob (sha, data) values (?, ?) on conflict do nothing;

-- name: refer_to_blob: A run's reference to a blob, unless it has one.
insert into blob_ref (run, blob) select ?, key from blob where sha = ? on conflict do nothing;

-- name: find_blob: A value by its hash.
select data from blob where sha = ?;

-- name: has_blob: Whether there is a value with that hash.
select 1 from blob where sha = ?;

-- name: find_owner: The process that has, or had, the run.
select host, pid, boot, started, since, port from lease where run = (select key from run where run_id = ?);

-- name: put_owner: The process that has the run now.
insert or replace into lease (run, host, pid, boot, started, since, port) values (?, ?, ?, ?, ?, ?, ?);

-- name: drop_owner: Nobody has the run now.
delete from lease where run = (select key from run where run_id = ?);

-- name: post_command: A command, unless the run has one of that id.
insert into command (run, id, port, at, data, crc) values (?, ?, ?, ?, ?, ?) on conflict do nothing;

-- name: find_command: A run's command by its id.
select position, id, port, at, data, crc, decision, decision_crc from command where run = ? and id = ?;

-- name: undecided_commands: A run's commands that nobody has decided on, in the order of their arrival.
select position, id, port, at, data, crc, decision, decision_crc from command
where run = ? and position > ? and decision is null order by position limit ?;

-- name: decide_command: What became of a command.
update command set decision = ?, decision_crc = ? where position = ? and run = ?;

-- name: find_decision: What became of a command, if it is decided.
select position, decision, decision_crc from command where position = ? and decision is not null;

-- name: last_command: The newest command's position.
select coalesce(max(position), 0) from command;

-- name: runs_commanded: The runs that commands have come for after a position. By position, as few are new.
select run_id from run where key in (select run from command not indexed where position > ?);

-- name: runs_undecided: The runs with commands that nobody has decided on.
select run_id from run where key in (select run from command where decision is null) order by key;

-- name: delete_commands: The commands of a run.
delete from command where run = ?;

-- name: delete_events: The events of a run, by the range of their ids.
delete from event where id between ? and ?;

-- name: delete_blobs_of_run: The blobs that only this run refers to.
delete from blob where key in (
    select mine.blob from blob_ref as mine where mine.run = ?1
    and not exists (select 1 from blob_ref as other where other.blob = mine.blob and other.run <> ?1)
);

-- name: delete_refs: A run's references to blobs.
delete from blob_ref where run = ?;

-- name: delete_run: A run's row.
delete from run where key = ?;

-- name: delete_orphan_blobs: Blobs that no run refers to.
delete from blob where not exists (select 1 from blob_ref where blob_ref.blob = blob.key);

-- name: is_empty: Whether the file has no tables at all.
select count(*) = 0 from sqlite_master;

-- name: list_tables: What the file says that its tables and indexes are.
select type, name, tbl_name, sql from sqlite_master;

-- name: count_rows: How many runs, blobs and bytes there are.
select count(*), (select count(*) from blob), coalesce(sum(bytes), 0) from run;
