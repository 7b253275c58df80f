#!/usr/bin/env bash
# Works under a lock, and stops when the lock is lost: hold.bash NAME [STEPS]
# Needs bash 4.1 or later. Ends with 0 only if the lock was held to the end.
set -u
name=$1 steps=${2:-3}

work() {
    for ((step = 1; step <= steps; step++)); do
        echo "step $step with token $token"
        sleep 0.1
    done
}

# When this script ends, however that happens, its end of the pipe is closed, and the lock is released.
coproc HOLD { exec lock hold "$name"; }
holder=$HOLD_PID from=${HOLD[0]} to=${HOLD[1]}

# The first line: held token=N valid_ms=N. Without it, lock has said why on stderr.
read -r _ token _ <&"$from" || { wait "$holder"; exit; }
token=${token#token=}

work &
worker=$!
while kill -0 "$worker" 2>/dev/null; do
    event=''
    read -r -t 0.1 event _ <&"$from" 2>/dev/null
    # More than 128: no line came in that time.
    if [[ $? -le 128 && ( -z $event || $event == lost ) ]]; then
        kill "$worker" 2>/dev/null
        echo 'stopped: the lock is lost'
        break
    fi
done
wait "$worker" 2>/dev/null

exec {to}>&-
wait "$holder"
