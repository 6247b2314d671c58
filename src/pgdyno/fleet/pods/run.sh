#!/bin/sh
# Runs the Jobs of a matrix one after another, in the order of its interleaved repetitions, and keeps their output in
# logs/. Written by pgdyno. Begin where it was ended with: ./run.sh NUMBER
# KUBECTL=oc for OpenShift. Where ./configure is executable, it is called with CONFIGURATION SMT CPUS before a Job whose
# server or host has to be in another state than before; else this waits for you to bring it there.
set -eu
cd "$(dirname "$0")"
kubectl=${KUBECTL:-kubectl}
from=${1:-1} state='' tab=$(printf '\t')
mkdir -p logs
"$kubectl" apply -f 000-namespace.json -f 000-driver.json
while IFS="$tab" read -r number job deadline configuration smt cpus; do
    [ "$number" -ge "$from" ] || continue
    if [ "$configuration $smt $cpus" != "$state" ]; then
        if [ -x ./configure ]; then
            ./configure "$configuration" "$smt" "$cpus" </dev/null
        else
            printf 'Job %s: configuration %s, SMT %s, CPUs of the server %s. Press Enter when it is in force: ' \
                "$number" "$configuration" "$smt" "$cpus"
            read -r _ </dev/tty
        fi
        state="$configuration $smt $cpus"
    fi
    "$kubectl" -n @NAMESPACE@ delete job "$job" --ignore-not-found --wait=true </dev/null
    "$kubectl" apply -f "$number-job.json" </dev/null
    "$kubectl" -n @NAMESPACE@ patch job "$job" --type=merge -p '{"spec":{"suspend":false}}' </dev/null
    waited=0
    until "$kubectl" -n @NAMESPACE@ get job "$job" -o 'jsonpath={.status.conditions[*].type}' </dev/null |
        grep -q -E '(^| )(Complete|Failed)( |$)'; do
        [ "$waited" -lt "$((deadline + 60))" ] || break
        sleep 2
        waited=$((waited + 2))
    done
    for pod in $("$kubectl" -n @NAMESPACE@ get pods -l "job-name=$job" -o name </dev/null); do
        "$kubectl" -n @NAMESPACE@ logs "$pod" </dev/null >"logs/$job-${pod##*/}.log" || true
    done
done <<'ORDER'
@ORDER@
ORDER
printf 'Now: pgdyno import pods %s/logs/*.log\n' "$PWD"
