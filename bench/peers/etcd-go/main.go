// Drives the mutex of etcd's own Go client. All names share one session, and so one lease.
package main

import (
	"context"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

const (
	ttlSeconds = 30
	// The client itself would try to connect for ever.
	connecting = 10 * time.Second
)

func main() {
	drive(func(ctx context.Context, names []string, url string) ([]lock, error) {
		client, err := clientv3.New(clientv3.Config{Endpoints: hosts(url)})
		if err != nil {
			return nil, err
		}
		session, err := open(ctx, client)
		if err != nil {
			return nil, err
		}
		locks := make([]lock, len(names))
		for n, name := range names {
			locks[n] = concurrency.NewMutex(session, name)
		}
		return locks, nil
	})
}

func open(ctx context.Context, client *clientv3.Client) (*concurrency.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, connecting)
	defer cancel()
	lease, err := client.Grant(ctx, ttlSeconds)
	if err != nil {
		return nil, err
	}
	return concurrency.NewSession(client, concurrency.WithLease(lease.ID))
}

// Returns the members that a URL such as etcd://host:port,host:port/ names.
func hosts(url string) []string {
	_, rest, _ := strings.Cut(url, "://")
	authority, _, _ := strings.Cut(rest, "/")
	return strings.Split(authority, ",")
}
