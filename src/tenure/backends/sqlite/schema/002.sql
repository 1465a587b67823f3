-- Schedules: the last slot of each that was given out.

create table tenure_schedules (
  name    text    primary key not null,
  last_at integer not null
) without rowid;
