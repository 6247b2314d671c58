#!/bin/sh
# One load generator of a matrix in a cluster, written by pgdyno: data and checkpoint (the first pod), the gate, pgbench,
# and then all that was measured on standard output, for `pgdyno import pods`.
# drive.sh PODS GATE SCALE WAIT PGBENCH...      PGDYNO_LOAD says in JSON what is run; PG* say where.
set -u
pods=$1 gate=$2 scale=$3 wait=$4
shift 4
index=${JOB_COMPLETION_INDEX:-0}
cd "${PGDYNO_FOLDER:-/tmp}" || exit 1

fail() {
    printf 'pgdyno-failed %s\n' "$1"
    exit 0 # the Job would be ended with all its pods, and their logs be lost
}
ask() { psql -X -q -A -t -F ' ' -v ON_ERROR_STOP=1 "$@"; }
send() {
    name=$1
    shift
    cat "$@" 2>/dev/null | gzip -c >"$name.gz"
    printf 'pgdyno-file %s %s\n' "$name" "$(sha256sum <"$name.gz" | cut -d ' ' -f 1)"
    base64 "$name.gz"
    printf 'pgdyno-close %s\n' "$name"
}

printf 'pgdyno-pod 1 %s %s\n' "$index" "$PGDYNO_LOAD"
others=$(ask -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pgdyno load $gate'" 2>&1) || fail "$others"
[ "$others" = 0 ] || fail "its Job runs already: this pod was started again, or another Job of the cell is under way"
if [ "$index" = 0 ]; then
    PGAPPNAME='pgdyno data' pgbench -i -q -I dtgvp -s "$scale" >data.txt 2>&1 || fail "$(tail -n 1 data.txt)"
    ask -c CHECKPOINT >checkpoint.txt 2>&1 || printf 'pgdyno-note no checkpoint: %s\n' "$(head -n 1 checkpoint.txt)"
    printf 'pgdyno-server %s\n' "$(ask -c "SELECT pg_database_size(current_database()), current_setting('server_version')")"
fi

# Each pod holds a lock of its own, until it has seen those of all others and these had the time to see its own.
ask >gate.txt 2>&1 <<SQL || fail "the gate stayed closed: $(head -n 1 gate.txt)"
SELECT pg_advisory_lock($gate, $index);
DO \$\$
BEGIN
    WHILE (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = $gate AND objsubid = 2 AND granted
           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) < $pods LOOP
        IF clock_timestamp() > now() + interval '$wait seconds' THEN
            RAISE EXCEPTION 'fewer than $pods load generators came within $wait s';
        END IF;
        PERFORM pg_sleep(0.02);
    END LOOP;
    PERFORM pg_sleep(2);
END \$\$;
SQL
if [ "$index" = 0 ]; then
    PGAPPNAME='pgdyno samples' ask >samples.txt 2>/dev/null <<'SQL' &
SELECT extract(epoch FROM now()), 'sessions', '-', count(*), 0 FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
UNION ALL
SELECT extract(epoch FROM now()), mode, locktype, count(*) FILTER (WHERE granted), count(*) FILTER (WHERE NOT granted)
FROM pg_locks
WHERE pid IS DISTINCT FROM pg_backend_pid()
  AND (database IS NULL OR database = 0
       OR database = (SELECT oid FROM pg_database WHERE datname = current_database()))
GROUP BY mode, locktype \watch 1
SQL
    sampler=$!
fi
printf 'pgdyno-begin %s\n' "$(date +%s)"
PGAPPNAME="pgdyno load $gate" "$@" 2>&1
code=$?
times >times.txt
printf 'pgdyno-end %s %s\n' "$code" "$(tail -n 1 times.txt)"
if [ "$index" = 0 ]; then
    kill "$sampler" 2>/dev/null
    send samples samples.txt
fi
send transactions transactions.*
printf 'pgdyno-complete\n'
