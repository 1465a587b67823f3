#!/bin/sh
# A worker in nothing but psql and sh: it claims a job, runs a command for it, and settles it.
#
#   DATABASE_URL=postgresql://mailer@db/app QUEUE=mail ./worker.sh ./send.sh
#
# The command gets the payload as a line of JSON on its standard input, and TENURE_ID, TENURE_TYPE, TENURE_ATTEMPT,
# TENURE_FENCE and TENURE_TOKEN in its environment. If it exits with 0 the job is completed, else it has failed and is
# tried again later. With DRAIN=1 the worker ends when nothing is due. Its role needs what `tenure sql roles` grants to
# tenure_worker.
set -eu

: "${DATABASE_URL:?name the database, such as postgresql://mailer@db/app}"
: "${1:?name the command to run, such as ./send.sh}"
schema=${SCHEMA:-tenure} queue=${QUEUE:-default} lease=${LEASE:-60}
worker="sh-$(uname -n)-$$"
case $lease in
  *[!0-9]* | [012] | '') echo "LEASE must be a whole number of seconds, 3 or more, not '$lease'" >&2; exit 2 ;;
esac
tab=$(printf '\t')

# Values go in as variables of psql, which quotes them where it reads :'so': never as part of the text.
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

# Prolong the lease while the command runs; but not if this script was killed: others are to take over then.
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
  # The server may be away just now. To say it twice does no harm: what has landed is told to have landed.
  until landed=$(echo "select :\"schema\".$ending;" | sql --set=error="$error"); do sleep 1; done
  { kill $! && wait $!; } 2>/dev/null || :
  # It took longer than its lease, and somebody else has it now: what that one does counts.
  [ "$landed" = t ] || echo "the claim of job $id was lost" >&2
done
