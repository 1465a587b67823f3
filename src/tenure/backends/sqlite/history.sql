-- The history of a job: every end of a claim except completion, and every move by an operator.

-- name: add
insert into tenure_history (job, number, outcome, fence, token, worker, claimed_at, ended_at, error)
values (:sequence, :number, :outcome, :fence, :token, :worker, :claimed_at, :now, :error);

-- name: drop the oldest
delete from tenure_history
where job = :sequence and number <= :dropped;
