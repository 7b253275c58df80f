#!/bin/sh
# A job of several steps under one lock: steps.sh NAME
# Ends with 0 only if the lock was held from the first step to the last.
set -eu

# The keeper releases the lock when this shell ends, however that happens. It holds for two hours at most.
answer=$(lock acquire --parent $$ --max-hold 2h "$1")
eval "$answer"

echo "build with token $LOCK_TOKEN"
sleep 0.1
echo "deploy with token $LOCK_TOKEN"
sleep 0.1

# 0 proves that it was held all the time, 74 that it was lost on the way.
lock release "$1"
echo 'done'
