// Drives the mutex of redsync on one server, with its defaults except for the expiry.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

const ttl = 30 * time.Second

func main() {
	drive(func(ctx context.Context, names []string, url string) ([]lock, error) {
		options, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		client := redis.NewClient(options)
		if err := client.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		maker := redsync.New(goredis.NewPool(client))
		locks := make([]lock, len(names))
		for n, name := range names {
			locks[n] = mutex{maker.NewMutex(name, redsync.WithExpiry(ttl))}
		}
		return locks, nil
	})
}

type mutex struct{ inner *redsync.Mutex }

func (m mutex) Lock(ctx context.Context) error {
	return m.inner.LockContext(ctx)
}

func (m mutex) Unlock(ctx context.Context) error {
	released, err := m.inner.UnlockContext(ctx)
	if err == nil && !released {
		return errors.New("the lock was not released")
	}
	return err
}
