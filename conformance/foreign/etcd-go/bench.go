package main

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// Runs a workload of this project's benchmark with this mutex.
// Returns the median cycle in microseconds, and cycles per second.
func bench(ctx context.Context, client *clientv3.Client, workload, seconds string) (string, error) {
	names, err := namesOf(workload)
	if err != nil {
		return "", err
	}
	length, err := parseSeconds(seconds)
	if err != nil {
		return "", err
	}
	workers := make([]*worker, len(names))
	for n, name := range names {
		// Two mutexes of one session would both hold the same name.
		session, err := newSession(client)
		if err != nil {
			return "", err
		}
		defer session.Close()
		workers[n] = &worker{mutex: concurrency.NewMutex(session, name)}
	}
	start := time.Now()
	var running sync.WaitGroup
	for _, worker := range workers {
		running.Add(1)
		go func() {
			defer running.Done()
			worker.work(ctx, start.Add(length))
		}()
	}
	running.Wait()
	return summary(workers, time.Since(start))
}

// Returns one name for each worker.
func namesOf(workload string) ([]string, error) {
	switch workload {
	case "uncontended":
		return []string{"bench-uncontended"}, nil
	case "one-name":
		names := make([]string, 8)
		for n := range names {
			names[n] = "bench-one-name"
		}
		return names, nil
	case "many-names":
		names := make([]string, 64)
		for n := range names {
			names[n] = fmt.Sprintf("bench-many-names-%d", n)
		}
		return names, nil
	}
	return nil, fmt.Errorf("no such workload: %q", workload)
}

type worker struct {
	mutex  *concurrency.Mutex
	cycles []time.Duration
	err    error
}

func (w *worker) work(ctx context.Context, end time.Time) {
	for start := time.Now(); start.Before(end); start = time.Now() {
		if w.err = w.mutex.Lock(ctx); w.err != nil {
			return
		}
		if w.err = w.mutex.Unlock(ctx); w.err != nil {
			return
		}
		w.cycles = append(w.cycles, time.Since(start))
	}
}

func summary(workers []*worker, took time.Duration) (string, error) {
	var cycles []time.Duration
	for _, worker := range workers {
		if worker.err != nil {
			return "", worker.err
		}
		cycles = append(cycles, worker.cycles...)
	}
	if len(cycles) == 0 {
		return "", fmt.Errorf("no cycle in %v", took)
	}
	sort.Slice(cycles, func(one, other int) bool { return cycles[one] < cycles[other] })
	median := cycles[len(cycles)/2]
	perSecond := float64(len(cycles)) / took.Seconds()
	return fmt.Sprintf("bench %d %.1f", median.Microseconds(), perSecond), nil
}
