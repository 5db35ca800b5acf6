"""The journal: what happened, in order, for ever. Pure storage, no policy.

Owns the event log of every run, the blobs that events refer to, the commands that wait for a run, and who
may write to a run. Events and commands are bytes: this room knows no kinds of either. It does not decide
when to commit; it has no threads and no event loop, and every method returns when its work is done.

Every store has this shape (the engine declares it as a protocol; `testing.journal_kit` checks it):

    durable: bool                         whether a commit outlives the process
    claim(run_id, now_ms, port=0) -> Lease   the one driver of a run, with a new epoch; or NotOwner
    release(lease)                        the run is free for another driver
    driven(run_id) -> bool                somebody has claimed it and not released it
    commit(appends)                       all of it is on disk, or none and an error
    head(run_id) -> Head | None           where a run stands; None: no such run
    read(run_id, after_seq=0, limit=None) -> list[Entry]     verified; NotFound: no such run
    good_prefix(run_id) -> list[Entry]    what is intact before the first damage
    blob(sha) -> bytes, has_blob(sha)     large values by their SHA-256 (hex)
    runs(holding=b"", lacking=b"") -> list[Head]   newest first; a damaged run is flagged, never hidden;
                                          all, or those whose headline holds some bytes and lacks others
    post(sent) -> list[Posted]            commands, durable when it returns; of one id of a run there is one
    posted(run_id, after=0, limit) -> list[Posted]   those nobody has decided on, in the order of arrival
    find_posted(run_id, id) -> Posted | None         one command of a run
    decisions(positions) -> dict          what became of commands, those that are decided
    arrived(after) -> (last, run ids)     the newest command's position, and whom the new ones are for
    undecided() -> list of run ids        those with commands that nobody has decided on
    port(run_id) -> int                   where whoever drives the run listens; 0: nobody, or nowhere
    delete(run_ids)                       all of them or none; blobs nobody refers to go too
    vacuum() -> int                       bytes given back to the file system
    data_version() -> int                 changes when somebody else has committed
    stats() -> dict                       facts for a health report
    close()                               releases every lease

Contracts
- One thread at a time calls the writing methods; the reading methods may run beside them.
- `commit` checks, for each append, that its lease is held here, that its epoch is current and that
  its events follow the last one. One misfit and nothing of the batch is written. Appends of one
  run may follow each other in a batch.
- An append carries every blob its events refer to, also when the store has it already: the
  reference is what keeps a blob from being swept.
- `read` returns what was written or raises StoreDamaged with run and seq. Nothing is skipped.
- Decisions on commands are part of an append: they are on disk with its events, or neither is. `post` may
  be called beside the other writing methods. Positions grow and are never given twice.
- After StoreError from `commit` the outcome has been looked up where that was possible: the batch
  is not there, or the store could not be reopened and the message says so. Read before writing on.
"""
