-- The last enqueued slot of each schedule.

create table tenure_schedules (
  name    text    primary key not null,
  last_at integer not null
) without rowid;
