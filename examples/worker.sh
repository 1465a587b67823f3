#!/bin/sh
# A worker in plain sh and psql: it claims a job, runs a command for the job, and settles the job.
#
#   DATABASE_URL=postgresql://mailer@db/app QUEUE=mail ./worker.sh ./send.sh
#
# The command gets the payload as a line of JSON on its standard input, and TENURE_ID, TENURE_TYPE, TENURE_ATTEMPT,
# TENURE_FENCE and TENURE_TOKEN in its environment. If the command exits with 0 the job is completed; otherwise the
# attempt has failed and the job is retried later. With DRAIN=1 the worker exits when no job is due. The role needs the
# rights that `tenure sql roles` grants to tenure_worker.
set -eu

: "${DATABASE_URL:?set it to the database URL, for example postgresql://mailer@db/app}"
: "${1:?pass the command to run, for example ./send.sh}"
schema=${SCHEMA:-tenure} queue=${QUEUE:-default} lease=${LEASE:-60}
worker="sh-$(uname -n)-$$"
case $lease in
  *[!0-9]* | [012] | '') echo "LEASE must be a whole number of seconds, 3 or more, not '$lease'" >&2; exit 2 ;;
esac
tab=$(printf '\t')

# Pass values as psql variables, which psql quotes in :'name'. Never paste values into the SQL text.
sql() {
  psql "$DATABASE_URL" --no-psqlrc --quiet --tuples-only --no-align --field-separator="$tab" \
    --set=ON_ERROR_STOP=1 --set=schema="$schema" --set=worker="$worker" --set=queue="$queue" --set=lease="$lease" \
    --set=id="${id-}" --set=fence="${fence-}" --set=token="${token-}" "$@"
}

claim() {
  sql <<'SQL'
select id, fence, token, type, attempts, payload::jsonb
from :"schema".claim_v1(:'worker', array[:'queue'], lease => :'lease');
SQL
}

# Extend the lease while the command runs. Stop when this script was killed: then another worker must take over.
keep() {
  trap 'kill ${nap-}; exit' TERM
  while sleep "$((lease / 3 + 1))" & nap=$!; wait $nap && kill -0 $$; do
    echo "select :\"schema\".extend_v1(:'id', :'fence', :'token', :'lease');" | sql || :
  done
}

while :; do
  # The server may be restarting.
  claimed=$(claim) || { sleep 1; continue; }
  if [ -z "$claimed" ]; then
    [ -z "${DRAIN-}" ] || exit 0
    sleep 1
    continue
  fi
  IFS=$tab read -r id fence token type attempts payload <<END
$claimed
END
  keep >/dev/null 2>&1 &
  if printf '%s\n' "$payload" | TENURE_ID=$id TENURE_TYPE=$type TENURE_ATTEMPT=$attempts TENURE_FENCE=$fence \
    TENURE_TOKEN=$token "$@"; then
    ending="complete_v1(:'id', :'fence', :'token')" error=
  else
    error="the command exited with $?" ending="fail_v1(:'id', :'fence', :'token', :'error')"
  fi
  # Retry while the server is unavailable. Settling twice is safe: the second call returns the same result.
  until landed=$(echo "select :\"schema\".$ending;" | sql --set=error="$error"); do sleep 1; done
  { kill $! && wait $!; } 2>/dev/null || :
  # The lease expired, and another worker may have claimed the job: only the result of the last holder counts.
  [ "$landed" = t ] || echo "the claim of job $id was lost" >&2
done
